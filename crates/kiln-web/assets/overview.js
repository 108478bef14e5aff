// The cluster at a glance.

import { h, keyed, setChildren, setText } from './dom.js';
import { grid } from './grid.js';
import { usage } from './usage.js';
import { state } from './live.js';
import { bar, stateWord } from './rollouts.js';
import { KINDS, SEVERITIES, ago, byName, clock, plural } from './words.js';

const MOST_FINDINGS = 8;

export function overview() {
  const groups = h('div');
  const grids = new Map();
  const legend = h('ul', { class: 'legend', 'aria-label': 'Nodes by what they do' });
  const figures = h('dl', { class: 'figures' });
  const findings = h('ul', { class: 'findings' });
  const calm = h('p', { class: 'quiet' });
  const more = h('p', { class: 'quiet' });
  const waiting = h('ul', { class: 'plain' });
  const accounts = h('ul', { class: 'plain' });
  const rollouts = h('ul', { class: 'plain' });
  const noRollouts = h('p', { class: 'quiet' }, 'No rollout is going on.');
  const past = usage();
  const page = h('div', { class: 'overview' },
    h('h1', { class: 'hidden' }, 'Overview'),
    figures,
    h('section', { class: 'card wide' }, h('h2', {}, 'Nodes'), legend, groups),
    h('section', { class: 'card' }, h('h2', {}, 'Findings'), calm, findings, more),
    h('section', { class: 'card' }, h('h2', {}, 'Why jobs wait'), waiting),
    h('section', { class: 'card' }, h('h2', {}, 'Cores by account'), accounts),
    h('section', { class: 'card' }, h('h2', {}, 'Rollouts'), rollouts, noRollouts),
    past.queue, past.usage);

  const show = () => {
    const seen = state.overview;
    past.show();
    keyed(groups, seen.groups, (group) => group.name, (group) => {
      const cells = grid(`Nodes of group ${group.name}`);
      grids.set(group.name, cells);
      return h('div', {}, h('h3', {}, `${group.name}${group.elastic ? ', elastic' : ''}`), cells.element);
    });
    const nodes = [...state.nodes.values()].sort((a, b) => byName(a.name, b.name));
    for (const group of seen.groups) grids.get(group.name).show(nodes.filter((node) => node.group === group.name));
    const kinds = Object.keys(KINDS).filter((kind) => seen.nodes[kind]);
    keyed(legend, kinds, (kind) => kind, (kind) => h('li', {},
      h('a', { href: `#/nodes?kind=${kind}` },
        h('span', { class: `cell k-${kind}`, 'aria-hidden': 'true' }, KINDS[kind].letter), h('b'), ` ${KINDS[kind].name}`)));
    kinds.forEach((kind, index) => setText(legend.children[index].querySelector('b'), String(seen.nodes[kind])));
    setChildren(figures, figuresOf(seen));
    keyed(findings, seen.findings.slice(0, MOST_FINDINGS), (f) => `${f.severity} ${f.subject} ${f.text}`, finding,
      (item, f) => setText(item.querySelector('.since'), f.since ? `for ${ago(f.since)}` : ''));
    const rest = seen.findings.length - MOST_FINDINGS;
    setText(more, rest > 0 ? `and ${rest} more, on the pages of the nodes` : '');
    setText(calm, seen.findings.length ? '' : 'Nothing is wrong.');
    setChildren(waiting, reasons());
    setChildren(accounts, shares(seen.cpus));
    const open = [...state.rollouts.values()].filter((rollout) => rollout.is_open);
    noRollouts.hidden = open.length > 0;
    setChildren(rollouts, open.map((rollout) => h('li', {},
      h('a', { href: `#/rollouts/${rollout.id}` }, `Rollout ${rollout.id}`), ` ${stateWord(rollout)} `, bar(rollout))));
  };
  return { title: 'Overview', element: page, show };
}

function figuresOf(seen) {
  const total = Object.values(seen.nodes).reduce((sum, count) => sum + count, 0);
  const share = seen.cpus ? Math.round((100 * seen.cpus_allocated) / seen.cpus) : 0;
  const figure = (name, value, note) => h('div', {}, h('dt', {}, name), h('dd', {}, h('b', {}, value), ` ${note}`));
  const wrong = seen.findings.filter((f) => f.severity === 'broken').length;
  return [
    figure('Nodes', String(total), `in ${plural(seen.groups.length, 'group')}`),
    figure('Cores in use', `${share} %`, `${seen.cpus_allocated} of ${seen.cpus}`),
    figure('Jobs', String(seen.jobs_running), `running, ${seen.jobs_waiting} waiting`),
    figure('Findings', String(seen.findings.length), wrong ? `${wrong} for you to mend` : 'none for you to mend'),
  ];
}

function finding(f) {
  const severity = SEVERITIES[f.severity];
  const isNode = state.nodes.has(f.subject);
  const subject = isNode ? h('a', { href: `#/nodes/${encodeURIComponent(f.subject)}` }, f.subject) : h('b', {}, f.subject);
  return h('li', { class: `s-${f.severity}` },
    h('span', { class: 'mark', title: severity.name }, severity.letter, h('span', { class: 'hidden' }, ` ${severity.name}`)),
    h('div', {}, h('p', {}, subject, `: ${f.text} `, h('span', { class: 'quiet since' })),
      h('p', { class: 'quiet' }, f.next, f.due ? ` At ${clock(f.due)}.` : '')));
}

// The commonest first, each with how many jobs it holds up.
function reasons() {
  const counts = new Map();
  for (const job of state.jobs.values()) {
    if (job.waiting) counts.set(job.waiting.text, (counts.get(job.waiting.text) ?? 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6);
  if (!sorted.length) return [h('li', { class: 'quiet' }, 'No job waits.')];
  return sorted.map(([text, count]) => h('li', {},
    h('a', { href: '#/jobs?state=PENDING', class: 'count' }, plural(count, 'job')), ` ${text}`));
}

// Whose jobs have how many cores, the largest share first.
function shares(all) {
  const cores = new Map();
  for (const job of state.jobs.values()) {
    if (!job.waiting) cores.set(job.account || 'no account', (cores.get(job.account || 'no account') ?? 0) + job.cpus);
  }
  const sorted = [...cores].sort((a, b) => b[1] - a[1]).slice(0, 6);
  if (!sorted.length) return [h('li', { class: 'quiet' }, 'No job runs.')];
  return sorted.map(([account, count]) => {
    const part = h('span', { class: 'work' });
    part.style.width = `${Math.min(100, (100 * count) / Math.max(1, all))}%`;
    return h('li', {}, h('span', { class: 'progress' }, h('span', { class: 'bar', 'aria-hidden': 'true' }, part),
      h('span', {}, h('b', {}, account), ` ${plural(count, 'core')}`)));
  });
}
