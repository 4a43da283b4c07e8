// What the page is given: figures of runs, a list of groups, and each group when it is asked for.

export interface Summary {
  method: string;
  seed: number;
  folder: string;
  steps: number;
  updates: number;
  turns: number;
  tokens: number;
  seconds: number;
  episodes: number;
  sampled: number[];
  greedy: number[];
  commit: string | null;
  packages: Record<string, string>;
  machine: string;
  command: string;
  settings: [string, string][];
}

export type Column = (number | null)[];

export interface Flip {
  task: string;
  greedy: boolean;
  history: (number | null)[];
  steps: number[];
  learned: boolean;
}

export interface Run {
  summary: Summary;
  curves: Record<string, Column>;
  flips: Flip[];
}

export interface Entry {
  key: string;
  run: number;
  step: number;
  played: "training" | "sampled" | "greedy";
  task: string;
  trees: number;
  turns: number;
  leaves: number;
  won: number;
  judged: number;
  mean: number | null;
  ends: Record<string, number>;
  rounds: number;
  gradient: number;
  visits: number;
}

export interface Head {
  version: string;
  written: string;
  live: boolean;
  kept: number;
  runs: Run[];
  groups: Entry[];
}

type TurnRecord = [
  parent: number,
  shared: number,
  fresh: number[],
  action: number[],
  logprobs: number[],
  entropies: number[],
  grownIn: number,
  version: number,
  reward: number,
  score: number | null,
  end: string | null,
  mergedInto: number | null,
];

type VisitRecord = [
  turn: number,
  leaf: number,
  phase: number,
  update: number | null,
  advantage: number | number[],
  before: number[],
  after: number[],
  values: number[],
  gradient: boolean,
];

interface GroupRecord {
  task: string;
  step: number;
  trees: { turns: TurnRecord[]; success: Record<string, boolean>; visits: VisitRecord[] }[];
  pieces: Record<string, string>;
  special: number[];
  space: string;
}

export interface Visit {
  turn: number;
  leaf: number;
  phase: number;
  update: number | null;
  /** Mean over tokens. */
  advantage: number;
  /** One a token, if tokens differ. */
  each: number[] | null;
  before: number[];
  after: number[];
  values: number[];
  gradient: boolean;
}

export interface Turn {
  id: string;
  tree: number;
  number: number;
  parent: number;
  shared: number;
  fresh: number[];
  action: number[];
  logprobs: number[];
  entropies: number[];
  grownIn: number;
  version: number;
  reward: number;
  score: number | null;
  end: string | null;
  mergedInto: number | null;
  depth: number;
  /** Sum of rewards from the first turn to this. */
  earned: number;
  /** Mean return of the judged leaves behind it; null if there is none. */
  below: number | null;
  children: number[];
  visits: Visit[];
  success: boolean | null;
  trunk: boolean;
}

export interface Group {
  key: string;
  task: string;
  step: number;
  trees: Turn[][];
  pieces: Record<string, string>;
  special: Set<number>;
  space: string;
  rounds: number;
}

export function embeddedHead(): Head {
  const text = document.getElementById("head")?.textContent;
  if (!text) throw new Error("the page holds no data");
  return JSON.parse(text) as Head;
}

export async function loadGroup(key: string): Promise<Group> {
  const packed = document.getElementById(`group-${key}`)?.textContent;
  if (packed) return groupOf(key, JSON.parse(await unpacked(packed)) as GroupRecord);
  const answer = await fetch(`group/${key}`);
  if (!answer.ok) throw new Error(`the server has no group ${key} any more`);
  return groupOf(key, (await answer.json()) as GroupRecord);
}

async function unpacked(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function groupOf(key: string, record: GroupRecord): Group {
  const trees = record.trees.map(({ turns, success, visits }, t) => {
    const made = turns.map((turn, i) => turnOf(turn, t, i));
    for (const visit of visits) made[visit[0]]?.visits.push(visitOf(visit));
    for (const turn of made) {
      const parent = made[turn.parent];
      if (parent) {
        turn.depth = parent.depth + 1;
        turn.earned += parent.earned;
        turn.trunk = parent.trunk && parent.children.length === 0;
        parent.children.push(turn.number);
      } else {
        turn.trunk = turn.number === 0;
      }
      turn.success = success[turn.number] ?? null;
    }
    fillBelow(made, success);
    return made;
  });
  const rounds = 1 + Math.max(0, ...trees.flatMap((tree) => tree.map((turn) => turn.grownIn)));
  return { ...record, key, trees, special: new Set(record.special), rounds };
}

function turnOf(record: TurnRecord, tree: number, number: number): Turn {
  const [parent, shared, fresh, action, logprobs, entropies, ...rest] = record;
  const [grownIn, version, reward, score, end, mergedInto] = rest;
  return {
    id: `${tree}.${number}`, tree, number, parent, shared, fresh, action, logprobs, entropies,
    grownIn, version, reward, score, end, mergedInto,
    depth: 0, earned: reward, below: null, children: [], visits: [], success: null, trunk: false,
  };
}

function visitOf([turn, leaf, phase, update, worth, before, after, values, gradient]: VisitRecord): Visit {
  const each = Array.isArray(worth) ? worth : null;
  const advantage = Array.isArray(worth)
    ? worth.reduce((sum, value) => sum + value, 0) / Math.max(1, worth.length)
    : worth;
  return { turn, leaf, phase, update, advantage, each, before, after, values, gradient };
}

function fillBelow(turns: Turn[], success: Record<string, boolean>): void {
  const sums = turns.map(() => [0, 0] as [number, number]);
  for (const turn of [...turns].reverse()) {
    const own = sums[turn.number]!;
    if (turn.number in success) {
      own[0] += turn.earned;
      own[1] += 1;
    }
    turn.below = own[1] ? own[0] / own[1] : null;
    const above = sums[turn.parent];
    if (above) {
      above[0] += own[0];
      above[1] += own[1];
    }
  }
  for (const turn of turns) {
    // What a merged answer's continuations earned is told by those of its twin.
    if (turn.mergedInto !== null) turn.below = turns[turn.mergedInto]?.below ?? null;
  }
}

/** The exact ids an answer was conditioned on. */
export function contextOf(tree: Turn[], turn: Turn): number[] {
  const parent = tree[turn.parent];
  if (!parent) return turn.fresh;
  const held = [...contextOf(tree, parent), ...parent.action];
  return [...held.slice(0, turn.shared), ...turn.fresh];
}

export function pathTo(tree: Turn[], turn: Turn): Turn[] {
  const path: Turn[] = [];
  for (let at: Turn | undefined = turn; at; at = tree[at.parent]) path.unshift(at);
  return path;
}

/** The advantage of a turn, over all its visits, or over those of one phase. */
export function advantageOf(turn: Turn, phase: number | null): number | null {
  const visits = turn.visits.filter((visit) => phase === null || visit.phase === phase);
  if (!visits.length) return null;
  return visits.reduce((sum, visit) => sum + visit.advantage, 0) / visits.length;
}

export function carriesGradient(turn: Turn, phase: number | null): boolean {
  return turn.visits.some((visit) => visit.gradient && (phase === null || visit.phase === phase));
}

export function textOf(group: Group, ids: number[]): string {
  return ids.map((id) => group.pieces[id] ?? `[${id}]`).join(group.space);
}

export function mean(values: number[]): number | null {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

export function shown(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  if (value !== 0 && Math.abs(value) < 10 ** -digits) return value.toExponential(1).replace("-", "\u2212");
  const text = Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);
  return text.replace("-", "\u2212");
}

export function signed(value: number | null): string {
  const text = shown(value);
  return value !== null && value > 0 ? `+${text}` : text;
}
