// The queue, with why each job waits.

import { h, setText } from './dom.js';
import { filters } from './filters.js';
import { jobLink, jobPages } from './history.js';
import { state } from './live.js';
import { table } from './table.js';
import { NEEDS, ago, byName, clock, plural } from './words.js';

export function jobs(query) {
  const options = (of) => () => [...new Set([...state.jobs.values()].flatMap(of))].sort(byName).map((value) => [value, value]);
  const choose = filters(query, [
    { name: 'text', label: 'Number or name', kind: 'search' },
    { name: 'state', label: 'State', options: options((job) => [job.state]) },
    { name: 'partition', label: 'Partition', options: options((job) => job.partition.split(',')) },
    { name: 'user', label: 'User', options: options((job) => [job.user]) },
    { name: 'account', label: 'Account', options: options((job) => [job.account]) },
  ], () => show());
  const count = h('p', { class: 'quiet', role: 'status' });
  const list = table('Jobs', [
    { name: 'Job', cell: (job) => jobLink(job.id) },
    { name: 'Name', cell: (job) => job.name },
    { name: 'User', cell: (job) => (job.account ? `${job.user} (${job.account})` : job.user) },
    { name: 'Partition', cell: (job) => job.partition },
    { name: 'Size', class: 'number', cell: (job) => `${plural(job.nodes, 'node')}, ${plural(job.cpus, 'core')}` },
    { name: 'State', cell: (job) => job.state.toLowerCase() },
    { name: 'Why, or where', cell: why },
  ], (job) => job.id);
  const page = h('div', {}, h('h1', {}, 'Jobs'), jobPages('Queue'), choose.element, count, list.element);
  const show = () => {
    choose.refresh();
    const { text, state: wanted, partition, user, account } = choose.values;
    const words = text.toLowerCase();
    const found = [...state.jobs.values()].filter((job) => (
      (!wanted || job.state === wanted) && (!partition || job.partition.split(',').includes(partition))
      && (!user || job.user === user) && (!account || job.account === account)
      && (!words || `${job.id} ${job.name}`.toLowerCase().includes(words))));
    // Those that wait come first, in the order in which they are to start.
    found.sort((a, b) => !a.waiting - !b.waiting || b.priority - a.priority || byName(a.id, b.id));
    const all = state.overview.jobs_running + state.overview.jobs_waiting;
    const listed = state.overview.jobs_listed < all ? ` of the first ${state.overview.jobs_listed} of ${all}` : '';
    setText(count, `${plural(found.length, 'job')}${listed}`);
    list.show(found);
  };
  return { title: 'Jobs', element: page, show };
}

function why(job) {
  if (!job.waiting) {
    return [job.nodelist ? `on ${job.nodelist}` : '', h('p', { class: 'quiet' }, job.start ? `for ${ago(job.start)}, limit ${job.time_limit}` : '')];
  }
  const start = job.start ? ` Slurm expects it to start at ${clock(job.start)}.` : '';
  return [`${job.waiting.text}${start}`,
    h('p', { class: 'quiet' }, h('span', { class: `needs n-${job.waiting.needs}` }, NEEDS[job.waiting.needs]),
      ` ${job.waiting.reason}, waiting for ${ago(job.submitted)}`)];
}
