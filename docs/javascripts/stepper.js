// Turns a list of steps into one that is looked at step by step. Without this script the list
// stands as it is, one step under the other.
"use strict";

function stepThrough(list) {
  const steps = [...list.children];
  const frame = list.parentElement;
  const back = document.createElement("button");
  const on = document.createElement("button");
  const where = document.createElement("span");
  const bar = document.createElement("div");
  let at = 0;

  function show(number) {
    at = Math.max(0, Math.min(steps.length - 1, number));
    steps.forEach((step, i) => { step.hidden = i !== at; });
    where.textContent = `step ${at + 1} of ${steps.length}`;
    back.disabled = at === 0;
    on.disabled = at === steps.length - 1;
  }

  bar.className = "stepper-bar";
  back.type = on.type = "button";
  back.textContent = "Back";
  on.textContent = "Next";
  back.addEventListener("click", () => show(at - 1));
  on.addEventListener("click", () => show(at + 1));
  bar.append(back, on, where);
  frame.insertBefore(bar, list);
  list.setAttribute("aria-live", "polite");
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "steps; left and right arrow keys go back and on");
  frame.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (to !== undefined) {
      show(to);
      event.preventDefault();
    }
  });
  show(0);
}

document.querySelectorAll(".stepper > ol").forEach(stepThrough);
