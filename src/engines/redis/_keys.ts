/** The keys of one queue, in the order in which the scripts expect them. */
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
 * Returns the keys of a mailbox. They share a hash tag, so that a cluster stores them in one slot. Dead
 * letters have the tag of their mailbox, so that one script can move a message to them.
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

/** Returns the channel on which a mailbox announces new messages. */
export function channelOf(name: string): string {
  return `${prefixOf(name)}:wake`;
}

function prefixOf(name: string): string {
  const [, base, dead] = /^(.*?)((?:\.dead)*)$/s.exec(name)!;
  return `{lastcall:${base}}${dead}`;
}
