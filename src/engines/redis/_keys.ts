/** The keys of one queue, in the order the scripts know them by. */
export type Keys = readonly [
  meta: string,
  ready: string,
  returned: string,
  due: string,
  messages: string,
  state: string,
  progress: string,
  ids: string,
];

/**
 * The keys of a mailbox. They share a hash tag, so that a cluster has them in one place, and dead letters
 * have the tag of their mailbox, so that a message can be moved there in one step.
 */
export function keysOf(name: string): Keys {
  const at = (part: string) => `${prefixOf(name)}:${part}`;
  return [
    at("meta"),
    at("ready"),
    at("returned"),
    at("due"),
    at("messages"),
    at("state"),
    at("progress"),
    at("ids"),
  ];
}

/** Where a mailbox tells that messages have come. */
export function channelOf(name: string): string {
  return `${prefixOf(name)}:wake`;
}

function prefixOf(name: string): string {
  const [, base, dead] = /^(.*?)((?:\.dead)*)$/s.exec(name)!;
  return `{lastcall:${base}}${dead}`;
}
