// Listens, and draws what it hears.

import { render } from "preact";
import { App, type Known } from "./app.tsx";
import { connect } from "./connection.ts";
import { moodOf, showInTab } from "./mood.ts";

const MOST_RATES = 60;

let known: Known = { status: undefined, lost: false, rates: [] };

function show(change: Partial<Known>): void {
  known = { ...known, ...change };
  render(<App {...known} />, document.getElementById("app")!);
}

show({});
connect({
  onStatus(status) {
    const { perSecond } = status.totals;
    const rates = perSecond === undefined ? known.rates : [...known.rates, perSecond];
    show({ status, rates: rates.slice(-MOST_RATES) });
    showInTab(moodOf(status), status.totals.inFlight);
  },
  onLost(lost) {
    if (lost !== known.lost) show({ lost });
  },
});
