// Charts as SVG: horizontal bars for rates, and dots relative to goals. The colours follow the reader's light or dark
// mode. A label or a shape repeats the meaning of each colour.

/** A bar with its lowest and highest round. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** The value as text. */
  readonly text: string;
  /** True for lastcall. */
  readonly own: boolean;
}

/** Bars with their own scale. */
export interface Panel {
  readonly title: string;
  readonly bars: readonly Bar[];
}

/** A dot with its lowest and highest round. 1 is the goal, and higher is better. */
export interface Dot {
  readonly series: string;
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** A goal. */
export interface DotRow {
  readonly label: string;
  readonly dots: readonly Dot[];
}

/** The text alternative of a chart. */
export interface Caption {
  readonly title: string;
  readonly description: string;
}

const WIDTH = 860;
const MARGIN = 16;
const STYLE = `
  svg {
    --paper: #ffffff;
    --frame: #d5dae1;
    --ink: #1b2430;
    --soft: #566171;
    --own: #2f6fd0;
    --peer: #a3adba;
    --node: #2e7d4f;
    --bun: #c25a00;
    --deno: #2f6fd0;
  }
  @media (prefers-color-scheme: dark) {
    svg {
      --paper: #10151c;
      --frame: #2c3643;
      --ink: #e7ecf3;
      --soft: #9fabba;
      --own: #6aa5ff;
      --peer: #5b6878;
      --node: #5fc08a;
      --bun: #ff9d4d;
      --deno: #6aa5ff;
    }
  }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); }
  .heading { font-weight: 600; }
  .soft { fill: var(--soft); }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
`;

const BAR = { labels: 190, top: 30, row: 24, gap: 14, length: 480 };

/** Draws panels of bars, one below the other. */
export function barChart(caption: Caption, panels: readonly Panel[]): string {
  const lines: string[] = [];
  let y = MARGIN;
  const x = MARGIN + BAR.labels;
  for (const { title, bars } of panels) {
    lines.push(text(MARGIN, y + 14, title, "heading"));
    y += BAR.top;
    const most = Math.max(...bars.map(({ high }) => high));
    const at = (value: number) => round(x + value / most * BAR.length);
    for (const { label, value, low, high, text: shown, own } of bars) {
      const middle = y + BAR.row / 2;
      lines.push(
        text(x - 8, middle + 4, label, "end"),
        `<rect x="${x}" y="${y + 4}" width="${round(at(value) - x)}" height="${BAR.row - 8}" ` +
          `rx="2" fill="var(--${own ? "own" : "peer"})"/>`,
        `<path d="M${at(low)} ${middle}H${at(high)}" stroke="var(--ink)" stroke-width="1.5"/>`,
        text(at(high) + 8, middle + 4, shown, "soft"),
      );
      y += BAR.row;
    }
    y += BAR.gap;
  }
  return svg(caption, y - BAR.gap + MARGIN, lines);
}

const DOT = { labels: 400, top: 62, row: 22, length: 410 };
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10] as const;
const SHAPES: Readonly<Record<string, (x: number, y: number) => string>> = {
  node: (x, y) => `<circle cx="${x}" cy="${y}" r="4" fill="var(--node)"/>`,
  bun: (x, y) => `<rect x="${x - 3.5}" y="${y - 3.5}" width="7" height="7" fill="var(--bun)"/>`,
  deno: (x, y) => `<path d="M${x} ${y - 4.5}l4.5 8h-9z" fill="var(--deno)"/>`,
};

/** Draws dots on a logarithmic scale, with a line at the goal. */
export function dotChart(caption: Caption, rows: readonly DotRow[]): string {
  const left = MARGIN + DOT.labels;
  const [lowest, highest] = [TICKS[0], TICKS.at(-1)!].map(Math.log) as [number, number];
  const at = (value: number) => {
    const share = (Math.log(value) - lowest) / (highest - lowest);
    return round(left + Math.min(1, Math.max(0, share)) * DOT.length);
  };
  const bottom = DOT.top + rows.length * DOT.row;
  const lines = Object.keys(SHAPES).flatMap((name, i) => {
    const x = left + i * 80;
    return [SHAPES[name]!(x, MARGIN + 6), text(x + 10, MARGIN + 10, name)];
  });
  for (const tick of TICKS) {
    const x = at(tick);
    const goal = tick === 1;
    const colour = goal ? "ink" : "frame";
    lines.push(
      `<path d="M${x} ${DOT.top - 8}V${bottom}" stroke="var(--${colour})" stroke-width="1"/>`,
      text(x, DOT.top - 14, goal ? "goal" : `${tick}×`, goal ? "heading middle" : "soft middle"),
    );
  }
  for (const [index, { label, dots }] of rows.entries()) {
    const middle = DOT.top + index * DOT.row + DOT.row / 2;
    lines.push(text(left - 12, middle + 4, label, "end"));
    for (const { series, value, low, high } of dots) {
      const y = middle + (Object.keys(SHAPES).indexOf(series) - 1) * 5;
      lines.push(
        `<path d="M${at(low)} ${y}H${at(high)}" stroke="var(--${series})" stroke-opacity="0.6"/>`,
        SHAPES[series]!(at(value), y),
      );
    }
  }
  return svg(caption, bottom + MARGIN, lines);
}

function svg({ title, description }: Caption, height: number, lines: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${round(height)}" ` +
    `role="img" aria-labelledby="title desc">
<title id="title">${escaped(title)}</title>
<desc id="desc">${escaped(description)}</desc>
<style>${STYLE}</style>
<rect width="${WIDTH}" height="${round(height)}" rx="8" fill="var(--paper)" stroke="var(--frame)"/>
${lines.join("\n")}
</svg>
`;
}

function text(x: number, y: number, content: string, classes = ""): string {
  const attribute = classes === "" ? "" : ` class="${classes}"`;
  return `<text x="${round(x)}" y="${round(y)}"${attribute}>${escaped(content)}</text>`;
}

function escaped(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
