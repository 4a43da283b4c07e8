// The rollouts: a list that can be filtered, the trees of one group, and one turn of them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { fill, MODES, modesOf, said, scaleOf, type Mode } from "./colour";
import { advantageOf, loadGroup, shown, type Entry, type Group, type Head, type Turn } from "./data";
import { sharedRest } from "./curves";
import { TreeView } from "./tree";
import { TurnView, type Tint } from "./turn";

const MOST = 200;

export interface Choice { key: string; turn: string }

interface Filters { run: string; played: string; step: string; task: string; outcome: string; end: string }

const ALL: Filters = { run: "", played: "", step: "", task: "", outcome: "", end: "" };

export function Rollouts({ head, choice, onChoose }: {
  head: Head; choice: Choice; onChoose: (choice: Choice) => void;
}) {
  const [filters, setFilters] = useState(ALL);
  const [most, setMost] = useState(MOST);
  const found = useMemo(() => head.groups.filter((entry) => passes(entry, filters)), [head, filters]);
  const change = (name: keyof Filters) => (event: Event) => {
    setMost(MOST);
    setFilters({ ...filters, [name]: (event.currentTarget as HTMLInputElement).value });
  };
  const steps = [...new Set(head.groups.filter((e) => !filters.played || kind(e) === filters.played).map((entry) => entry.step))].sort((a, b) => a - b);
  const ends = [...new Set(head.groups.flatMap((entry) => Object.keys(entry.ends)))].sort();
  const kinds = [...new Set(head.groups.map(kind))];
  return (
    <section aria-labelledby="rollouts" class="rollouts">
      <h2 id="rollouts">Rollouts</h2>
      <p class="faint">
        {found.length.toLocaleString("en")} of {head.groups.length.toLocaleString("en")} groups
        {head.kept > head.groups.length && `, sampled from the ${head.kept.toLocaleString("en")} that were kept (retrograde view shows all)`}.
        Arrow keys walk through a tree; comma and full stop go to the group before and after.
      </p>
      <form class="bar" onSubmit={(event) => event.preventDefault()} aria-label="Filters">
        {head.runs.length > 1 && (
          <label>run <select value={filters.run} onChange={change("run")}>
            <option value="">all</option>
            {head.runs.map(({ summary }, i) => <option key={i} value={`${i}`}>{i + 1}: {summary.method.slice(0, summary.method.length - sharedRest(head).length)}, seed {summary.seed}</option>)}
          </select></label>
        )}
        <label>played for <select value={filters.played} onChange={change("played")}>
          <option value="">anything</option>
          {kinds.map((each) => <option key={each} value={each}>{each}</option>)}
        </select></label>
        <label>step <select value={filters.step} onChange={change("step")}>
          <option value="">all</option>
          {steps.map((step) => <option key={step} value={`${step}`}>{step}</option>)}
        </select></label>
        <label>task <input type="search" size={12} value={filters.task} onInput={change("task")} placeholder="name" /></label>
        <label>with a rollout that <select value={filters.outcome} onChange={change("outcome")}>
          <option value="">ended</option>
          <option value="won">succeeded</option>
          <option value="lost">did not succeed</option>
        </select></label>
        <label>ended by <select value={filters.end} onChange={change("end")}>
          <option value="">any reason</option>
          {ends.map((end) => <option key={end} value={end}>{end}</option>)}
        </select></label>
        <button type="button" onClick={() => setFilters(ALL)}>Clear</button>
      </form>
      <div class="columns3">
        <List entries={found.slice(0, most)} choice={choice} several={head.runs.length > 1}
          onChoose={(key) => onChoose({ key, turn: "" })}
          more={found.length > most ? () => setMost(most + MOST) : null} />
        <Chosen choice={choice} onChoose={onChoose} entries={found} filters={filters} />
      </div>
    </section>
  );
}

function kind(entry: Entry): string {
  return entry.played === "training" ? "training" : `evaluation, ${entry.played}`;
}

function passes(entry: Entry, filters: Filters): boolean {
  return (
    (!filters.run || entry.run === Number(filters.run)) &&
    (!filters.played || kind(entry) === filters.played) &&
    (!filters.step || entry.step === Number(filters.step)) &&
    (!filters.task || entry.task.toLowerCase().includes(filters.task.toLowerCase())) &&
    (!filters.outcome || (filters.outcome === "won" ? entry.won > 0 : entry.won < entry.judged)) &&
    (!filters.end || (entry.ends[filters.end] ?? 0) > 0)
  );
}

function List({ entries, choice, several, onChoose, more }: {
  entries: Entry[]; choice: Choice; several: boolean; onChoose: (key: string) => void; more: (() => void) | null;
}) {
  return (
    <nav class="list" aria-label="Groups of rollouts">
      {entries.length === 0 && <p class="faint">No group passes these filters.</p>}
      <ul>
        {entries.map((entry) => (
          <li key={entry.key}>
            <button type="button" class={entry.key === choice.key ? "here" : ""} data-key={entry.key}
              aria-current={entry.key === choice.key ? "true" : undefined} onClick={() => onChoose(entry.key)}>
              <span class="name">{entry.task}</span>
              <span class="faint">{several && `run ${entry.run + 1}, `}step {entry.step}{entry.played === "training" ? "" : `, ${entry.played}`}</span>
              <span class="tally">
                <Share won={entry.won} judged={entry.judged} />
                {entry.won}/{entry.judged}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {more && <button type="button" onClick={more}>Show more</button>}
    </nav>
  );
}

function Share({ won, judged }: { won: number; judged: number }) {
  const share = judged ? won / judged : 0;
  return (
    <svg width="36" height="6" aria-hidden="true" class="share">
      <rect width="36" height="6" rx="2" class="rest" />
      {share > 0 && <rect width={36 * share} height="6" rx="2" class="won" />}
    </svg>
  );
}

function Chosen({ choice, onChoose, entries, filters }: {
  choice: Choice; onChoose: (choice: Choice) => void; entries: Entry[]; filters: Filters;
}) {
  const [group, setGroup] = useState<Group | null>(null);
  const [trouble, setTrouble] = useState("");
  const [mode, setMode] = useState<Mode>("advantage");
  const [phase, setPhase] = useState<number | null>(null);
  const [tint, setTint] = useState<Tint>("logprob");
  const listed = entries.some((entry) => entry.key === choice.key);
  const key = choice.key || instructive(entries)?.key || "";
  useEffect(() => {
    const first = instructive(entries);
    if (!listed && first) onChoose({ key: first.key, turn: "" });
  }, [listed, entries]);
  useEffect(() => {
    let current = true;
    setTrouble("");
    if (key) {
      loadGroup(key).then(
        (loaded) => current && (setGroup(loaded), setPhase(null)),
        (error: unknown) => current && setTrouble(String(error)),
      );
    }
    return () => { current = false; };
  }, [key]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = event.key === "." ? 1 : event.key === "," ? -1 : 0;
      const at = entries.findIndex((entry) => entry.key === key);
      const next = entries[at + step];
      if (step && next) onChoose({ key: next.key, turn: "" });
      const way = event.key === "]" ? 1 : event.key === "[" ? -1 : 0;
      if (way && group) setPhase((now) => stepped(now, way, group.rounds));
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
  if (trouble) return <p class="trouble" role="alert">{trouble}</p>;
  if (!group) return <p class="faint">{key ? "Reading\u2026" : "No rollouts were kept."}</p>;
  const modes = modesOf(group);
  const used = modes.includes(mode) ? mode : modes[0]!;
  const turn = turnOf(group, choice.key === group.key ? choice.turn : "");
  return (
    <>
      <div class="trees">
        <div class="bar">
          <strong>{group.task}</strong>
          <label>colour <select value={used} onChange={(event) => setMode(event.currentTarget.value as Mode)}>
            {modes.map((each) => <option key={each} value={each}>{MODES[each]}</option>)}
          </select></label>
          <Legend group={group} mode={used} />
        </div>
        {group.rounds > 1 && <Phases group={group} phase={phase} onPhase={setPhase} />}
        <TreeView group={group} mode={used} phase={phase} match={{ end: filters.end, outcome: filters.outcome }}
          selected={turn.id} onSelect={(id) => onChoose({ key: group.key, turn: id })} />
        <p class="faint small key">
          Square: forked. Outlined: carried gradient. Empty: says nothing of the colour. Heavy line: the first attempt. {"\u2713"} succeeded, {"\u2717"} did not; the number is the return.
        </p>
      </div>
      <TurnView group={group} turn={turn} phase={phase} tint={tint} onTint={setTint}
        onSelect={(id) => onChoose({ key: group.key, turn: id })} />
    </>
  );
}

/** Where there is most to see at first: late in training, some won and some lost, much gradient. */
function instructive(entries: Entry[]): Entry | undefined {
  const mixed = (entry: Entry) => Number(entry.won > 0 && entry.won < entry.judged);
  const worth = (entry: Entry) => mixed(entry) * (1 + entry.gradient / Math.max(1, entry.visits));
  return entries.reduce<Entry | undefined>((best, entry) => (!best || worth(entry) >= worth(best) + 1e-9 ? entry : best), undefined);
}

/** The turn that was chosen; else one that lost most, so that there is something to look at. */
function turnOf(group: Group, id: string): Turn {
  const turns = group.trees.flat();
  const chosen = turns.find((turn) => turn.id === id);
  if (chosen) return chosen;
  const worst = [...turns].sort((a, b) => (advantageOf(a, null) ?? 0) - (advantageOf(b, null) ?? 0))[0]!;
  return (advantageOf(worst, null) ?? 0) < 0 ? worst : turns[0]!;
}

function stepped(now: number | null, way: number, rounds: number): number | null {
  if (now === null) return way > 0 ? 0 : rounds - 1;
  const next = now + way;
  return next < 0 || next >= rounds ? null : next;
}

function Legend({ group, mode }: { group: Group; mode: Mode }) {
  const scale = scaleOf(group, mode);
  const at = [0, 0.25, 0.5, 0.75, 1].map((share) => scale.low + share * (scale.high - scale.low));
  return (
    <span class="legend" role="img" aria-label={`colours from ${said(scale.low, mode)} to ${said(scale.high, mode)}`}>
      <span>{said(scale.low, mode)}</span>
      {at.map((value) => <i key={value} style={{ background: fill(value, scale) }} />)}
      <span>{said(scale.high, mode)}</span>
    </span>
  );
}

/** Rounds of growth, each followed by its update where a method learns round by round. */
function Phases({ group, phase, onPhase }: { group: Group; phase: number | null; onPhase: (phase: number | null) => void }) {
  return (
    <div class="bar phases" role="group" aria-label="Phases">
      <button type="button" onClick={() => onPhase(stepped(phase, -1, group.rounds))} aria-label="Phase before">{"\u2039"}</button>
      {Array.from({ length: group.rounds }, (_, i) => (
        <button key={i} type="button" class={phase === i ? "here" : ""} aria-pressed={phase === i} onClick={() => onPhase(phase === i ? null : i)}>{i}</button>
      ))}
      <button type="button" onClick={() => onPhase(stepped(phase, 1, group.rounds))} aria-label="Phase after">{"\u203a"}</button>
      <button type="button" class={phase === null ? "here" : ""} aria-pressed={phase === null} onClick={() => onPhase(null)}>all</button>
      <span aria-live="polite">{phaseInWords(group, phase)}</span>
    </div>
  );
}

function phaseInWords(group: Group, phase: number | null): string {
  if (phase === null) return `All ${group.rounds} phases`;
  const turns = group.trees.flat();
  const grown = turns.filter((turn) => turn.grownIn === phase);
  const roots = new Set(grown.filter((turn) => turns.find((p) => p.id === `${turn.tree}.${turn.parent}`)?.grownIn !== phase).map((turn) => turn.depth + 1));
  const visits = turns.flatMap((turn) => turn.visits).filter((visit) => visit.phase === phase);
  const updates = [...new Set(visits.map((visit) => visit.update))];
  const what = phase === 0 ? `Phase 0: the first attempt${group.trees.length > 1 ? "s" : ""}`
    : `Phase ${phase}: ${grown.length ? `other answers at turn ${[...roots].sort((a, b) => a - b).join(", ")}` : "nothing grown"}`;
  if (!visits.length) return `${what}; nothing judged`;
  const made = updates.filter((update) => update !== null);
  const moved = visits.filter((visit) => visit.gradient).length;
  return `${what}; ${made.length ? `update to version ${made.join(", ")}, ${moved} of ${visits.length} judged here with gradient` : "judged, and the update was skipped"}; mean return ${shown(meanReturn(grown))}`;
}

function meanReturn(turns: Turn[]): number | null {
  const judged = turns.filter((turn) => turn.success !== null);
  return judged.length ? judged.reduce((sum, turn) => sum + turn.earned, 0) / judged.length : null;
}
