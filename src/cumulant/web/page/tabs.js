// Tabs as screen readers and keyboards know them: arrow keys go from one to the next.

export function tabs(list, chosen) {
  const all = [...list.querySelectorAll("[role=tab]")];

  const choose = (tab) => {
    for (const one of all) {
      one.ariaSelected = String(one === tab);
      one.tabIndex = one === tab ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = one !== tab;
    }
    chosen();
  };
  all.forEach((tab, i) => {
    tab.onclick = () => choose(tab);
    tab.onkeydown = (event) => {
      const turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!turn) return;
      const next = all[(i + turn + all.length) % all.length];
      choose(next);
      next.focus();
    };
  });
}
