import {
  busMessages,
  datasets,
  evalRequests,
  extras,
  fileNames,
  foreignFileNames,
  journals,
  orders,
  records,
  settings,
} from "./_file_targets.ts";
import { fuzz } from "./_fuzz.ts";

fuzz(fileNames, foreignFileNames(), orders, extras, records, busMessages, settings);
fuzz(datasets, journals, evalRequests);
