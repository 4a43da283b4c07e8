// Which colour a turn has. Colours are mixed by the style sheet, so that dark mode needs no script.
import { advantageOf, mean, signed, shown, type Group, type Turn } from "./data";

export type Mode = "advantage" | "below" | "entropy" | "reward" | "score" | "critic" | "version";

export const MODES: Record<Mode, string> = {
  advantage: "advantage",
  below: "return behind it",
  entropy: "entropy",
  reward: "reward",
  score: "score",
  critic: "critic's value",
  version: "policy version",
};

export interface Scale {
  /** Values at the ends of the scale. */
  low: number;
  high: number;
  diverging: boolean;
}

export function valueOf(turn: Turn, mode: Mode, phase: number | null): number | null {
  switch (mode) {
    case "advantage": return advantageOf(turn, phase);
    case "below": return turn.below;
    case "entropy": return mean(turn.entropies);
    case "reward": return turn.reward;
    case "score": return turn.score;
    case "critic": return mean(turn.visits.flatMap((visit) => visit.values.slice(0, 1)));
    case "version": return turn.version;
  }
}

/** Modes that say something about a group. */
export function modesOf(group: Group): Mode[] {
  const turns = group.trees.flat();
  return (Object.keys(MODES) as Mode[]).filter(
    (mode) => mode === "reward" || turns.some((turn) => valueOf(turn, mode, null) !== null),
  );
}

export function scaleOf(group: Group, mode: Mode): Scale {
  const values = group.trees.flat()
    .map((turn) => valueOf(turn, mode, null))
    .filter((value) => value !== null);
  const low = Math.min(...values, Infinity), high = Math.max(...values, -Infinity);
  if (!values.length) return { low: 0, high: 1, diverging: false };
  if (mode === "advantage" || ((mode === "reward" || mode === "below") && low < 0)) {
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return { low: -most, high: most, diverging: true };
  }
  if (mode === "version") return { low, high: high === low ? low + 1 : high, diverging: false };
  if (mode === "score" || mode === "critic") return { low: Math.min(0, low), high: Math.max(1, high), diverging: false };
  return { low: 0, high: high || 1, diverging: false };
}

export function fill(value: number | null, scale: Scale): string {
  if (value === null) return "var(--unjudged)";
  if (scale.diverging) {
    const share = Math.min(1, Math.abs(value) / scale.high);
    const end = value > 0 ? "var(--good)" : "var(--bad)";
    return `color-mix(in oklab, ${end} ${Math.round(100 * Math.sqrt(share))}%, var(--zero))`;
  }
  const share = Math.min(1, Math.max(0, (value - scale.low) / (scale.high - scale.low)));
  return `color-mix(in oklab, var(--much) ${Math.round(100 * share)}%, var(--little))`;
}

export function said(value: number | null, mode: Mode): string {
  return mode === "advantage" ? signed(value) : shown(value);
}
