// A group's trees: a column for each turn, a row for each rollout, the first attempt straight.
import { hierarchy, type HierarchyNode } from "d3-hierarchy";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fill, MODES, said, scaleOf, valueOf, type Mode, type Scale } from "./colour";
import { carriesGradient, shown, type Group, type Turn } from "./data";

const ROW = 20, RADIUS = 7, LEFT = 34, TOP = 14, LABEL = 130, HEADS = 22;

interface Place { turn: Turn; x: number; y: number }

interface Layout { places: Map<string, Place>; rows: number; columns: number }

interface Branch { turn: Turn | null; children: Branch[] }

/** Rows are counted from the top: the eldest answer keeps its parent's row, others get new ones. */
function layoutOf(group: Group, width: number): Layout {
  const places = new Map<string, Place>();
  let rows = 0, deepest = 0;
  const depths = group.trees.flatMap((tree) => tree.map((turn) => turn.depth));
  const columns = 1 + Math.max(0, ...depths);
  const column = Math.max(30, Math.min(120, (width - LEFT - LABEL) / Math.max(1, columns)));
  for (const tree of group.trees) {
    const branch = (turn: Turn): Branch => ({ turn, children: turn.children.map((i) => branch(tree[i]!)) });
    const root = hierarchy<Branch>({ turn: null, children: tree.filter((t) => t.parent < 0).map(branch) });
    const row = new Map<HierarchyNode<Branch>, number>();
    root.eachBefore((node) => {
      const above = node.parent;
      const eldest = above !== null && above.children![0] === node && row.has(above);
      row.set(node, eldest ? row.get(above)! : node.data.turn ? rows++ : rows);
      if (!node.data.turn) row.delete(node);
    });
    for (const [node, at] of row) {
      const turn = node.data.turn!;
      deepest = Math.max(deepest, turn.depth);
      places.set(turn.id, { turn, x: LEFT + turn.depth * column, y: TOP + at * ROW });
    }
    if (group.trees.length > 1 && tree.length) rows += tree.some((t) => t.children.length > 1) ? 0.5 : 0;
  }
  return { places, rows, columns: deepest + 1 };
}

export interface Match { end: string; outcome: string }

export function TreeView(props: {
  group: Group;
  mode: Mode;
  phase: number | null;
  match: Match;
  selected: string;
  onSelect: (id: string) => void;
}) {
  const { group, mode, phase, match, selected, onSelect } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(720);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    if (box.current) seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  const layout = useMemo(() => layoutOf(group, width), [group, width]);
  const scale = useMemo(() => scaleOf(group, mode), [group, mode]);
  const matching = useMemo(() => matchingOf(group, match), [group, match.end, match.outcome]);
  const places = [...layout.places.values()].filter(
    ({ turn }) => phase === null || turn.grownIn <= phase,
  );
  const present = new Set(places.map(({ turn }) => turn.id));
  const right = Math.max(...places.map(({ x }) => x), LEFT) + LABEL;
  const tall = Math.max(TOP, ...places.map(({ y }) => y)) + ROW;

  useEffect(() => {
    const held = document.activeElement;
    const node = box.current?.querySelector<SVGElement>(`[data-turn="${selected}"]`);
    if (!node) return;
    if (held && box.current?.contains(held)) node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [selected, group]);

  function onKeyDown(event: KeyboardEvent) {
    const at = layout.places.get(selected);
    if (!at) return;
    const next = neighbour(at, places, group, event.key);
    if (!next) return;
    event.preventDefault();
    onSelect(next.turn.id);
  }

  const columns = Array.from({ length: layout.columns }, (_, i) => i);
  const first = places[0] ? layout.places.get(places[0].turn.id)!.x : LEFT;
  const second = places.find(({ turn }) => turn.depth === 1)?.x ?? first + 60;
  return (
    <div class="canvas" ref={box}>
      <svg class="heads" width={right} height={HEADS} aria-hidden="true">
        {columns.map((i) => <text key={i} x={first + i * (second - first)} y={15}>{i ? i + 1 : "turn 1"}</text>)}
      </svg>
      <svg width={right} height={tall} role="tree" aria-label={`Rollouts of task ${group.task}`}
        onKeyDown={onKeyDown}>
        <g aria-hidden="true">
          {places.map((place) => <Edge key={place.turn.id} place={place} layout={layout}
            faded={!matching.has(place.turn.id)} group={group} />)}
        </g>
        <g aria-hidden="true">
          {places.map((place) => <Outcome key={place.turn.id} place={place} faded={!matching.has(place.turn.id)} onSelect={onSelect}
            open={place.turn.children.length > 0 && !place.turn.children.some((i) => present.has(`${place.turn.tree}.${i}`))} />)}
        </g>
        {places.map((place) => (
          <Node key={place.turn.id} place={place} mode={mode} phase={phase} scale={scale}
            faded={!matching.has(place.turn.id)}
            fresh={phase !== null && place.turn.grownIn === phase}
            forked={place.turn.children.filter((i) => present.has(`${place.turn.tree}.${i}`)).length > 1}
            selected={place.turn.id === selected} focusable={place.turn.id === selected || (!present.has(selected) && place === places[0])}
            onSelect={onSelect} />
        ))}
      </svg>
    </div>
  );
}

/** Turns on the way to a leaf that the filters ask for. */
function matchingOf(group: Group, match: Match): Set<string> {
  const found = new Set<string>();
  for (const tree of group.trees) {
    for (const leaf of tree) {
      if (leaf.children.length) continue;
      if (match.end && leaf.end !== match.end) continue;
      if (match.outcome === "won" && leaf.success !== true) continue;
      if (match.outcome === "lost" && leaf.success !== false) continue;
      for (let at: Turn | undefined = leaf; at && !found.has(at.id); at = tree[at.parent]) found.add(at.id);
    }
  }
  return found;
}

function neighbour(at: Place, places: Place[], group: Group, key: string): Place | undefined {
  const byId = (id: string) => places.find(({ turn }) => turn.id === id);
  const { turn } = at;
  switch (key) {
    case "ArrowLeft": return byId(`${turn.tree}.${turn.parent}`);
    case "ArrowRight": return byId(`${turn.tree}.${turn.children[0]}`);
    case "ArrowUp":
    case "ArrowDown": {
      const step = key === "ArrowDown" ? 1 : -1;
      return places
        .filter((other) => (other.y - at.y) * step > 0)
        .sort((a, b) => distance(a, at) - distance(b, at))[0];
    }
    case "Home": return byId(`${turn.tree}.${group.trees[turn.tree]![0]?.number}`);
    case "End": {
      let last = turn;
      while (last.children.length) last = group.trees[turn.tree]![last.children[0]!]!;
      return byId(last.id);
    }
    default: return undefined;
  }
}

/** Up and down keep to a column where they can. */
function distance(a: Place, b: Place): number {
  return Math.abs(a.y - b.y) + 4 * Math.abs(a.x - b.x);
}

function Edge({ place, layout, faded, group }: { place: Place; layout: Layout; faded: boolean; group: Group }) {
  const { turn, x, y } = place;
  const parent = layout.places.get(`${turn.tree}.${turn.parent}`);
  const twin = turn.mergedInto === null ? undefined : layout.places.get(`${turn.tree}.${turn.mergedInto}`);
  const style = faded ? " faded" : "";
  const trunk = turn.trunk && group.trees[turn.tree]!.some((other) => !other.trunk) ? " trunk" : "";
  const eldest = parent ? undefined : group.trees[turn.tree]!.find((other) => other.parent < 0);
  const opening = eldest && eldest.id !== turn.id ? layout.places.get(eldest.id) : undefined;
  return (
    <>
      {opening && <path class={`edge${style}`} d={`M${opening.x} ${opening.y}H${opening.x - 12}Q${x - 20} ${opening.y} ${x - 20} ${opening.y + 8}V${y - 8}Q${x - 20} ${y} ${x - 12} ${y}H${x}`} />}
      {parent && <path class={`edge${trunk}${style}`}
        d={parent.y === y ? `M${parent.x} ${y}H${x}` : bent(parent.x, parent.y, x, y)} />}
      {twin && <path class={`edge merged${style}`} d={`M${x} ${y}Q${x + 16} ${(y + twin.y) / 2} ${twin.x} ${twin.y}`} />}
    </>
  );
}

function bent(x0: number, y0: number, x1: number, y1: number): string {
  const down = x0 + Math.min(14, (x1 - x0) / 2);
  return `M${x0} ${y0}C${down} ${y0} ${down} ${y0} ${down} ${y0 + 10}V${y1 - 8}Q${down} ${y1} ${down + 8} ${y1}H${x1}`;
}

function Node(props: {
  place: Place; mode: Mode; phase: number | null; scale: Scale; faded: boolean; fresh: boolean; forked: boolean;
  selected: boolean; focusable: boolean; onSelect: (id: string) => void;
}) {
  const { place: { turn, x, y }, mode, phase, scale, faded, fresh, forked, selected, focusable, onSelect } = props;
  const value = valueOf(turn, mode, phase);
  const gradient = carriesGradient(turn, phase);
  const leaf = turn.children.length === 0;
  const label = [
    `Turn ${turn.depth + 1}${turn.trunk ? " of the first attempt" : ""}`,
    `${MODES[mode]} ${value === null ? "unknown" : said(value, mode)}`,
    gradient ? "carried gradient" : "no gradient",
    ...(forked ? [`${turn.children.length} answers behind it`] : []),
    ...(leaf ? [outcomeInWords(turn)] : []),
  ].join(", ");
  return (
    <g role="treeitem" class={`node${faded ? " faded" : ""}${selected ? " selected" : ""}${fresh ? " fresh" : ""}`}
      data-turn={turn.id} aria-label={label} aria-level={turn.depth + 1} aria-selected={selected}
      tabindex={focusable ? 0 : -1} onClick={() => onSelect(turn.id)}
      onKeyDown={(event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          onSelect(turn.id);
        }
      }}>
      <title>{label}</title>
      <circle class="halo" cx={x} cy={y} r={RADIUS + 4} />
      {forked
        ? <rect class={`dot${gradient ? " gradient" : ""}`} x={x - RADIUS} y={y - RADIUS} width={2 * RADIUS} height={2 * RADIUS} rx={2} style={{ fill: fill(value, scale) }} />
        : <circle class={`dot${gradient ? " gradient" : ""}`} cx={x} cy={y} r={leaf ? RADIUS - 1 : RADIUS - 1} style={{ fill: fill(value, scale) }} />}
    </g>
  );
}

function Outcome({ place, open, faded, onSelect }: { place: Place; open: boolean; faded: boolean; onSelect: (id: string) => void }) {
  const { turn, x, y } = place;
  if (turn.children.length && !open) return null;
  const kind = open || turn.success === null ? "" : turn.success ? " won" : " lost";
  return (
    <text class={`outcome${kind}${faded ? " faded" : ""}`} x={x + 14} y={y + 4} onClick={() => onSelect(turn.id)}>
      {open ? "\u2026" : outcome(turn)}
    </text>
  );
}

function outcome(turn: Turn): string {
  if (turn.end === "merged") return "merged";
  if (turn.end === "spared" || turn.end === "failed") return turn.end;
  const mark = turn.success ? "\u2713" : "\u2717";
  const why = turn.end === "finished" ? "" : ` ${turn.end}`;
  return `${turn.success === null ? "" : `${mark} `}${shown(turn.earned)}${why}`;
}

export function outcomeInWords(turn: Turn): string {
  const ended = `ended: ${turn.end}`;
  if (turn.success === null) return ended;
  return `${turn.success ? "succeeded" : "did not succeed"} with return ${shown(turn.earned)}, ${ended}`;
}
