// Words and letters for what is shown.

// In the order in which they are told. The letter says the same as the colour.
export const KINDS = {
  down: { letter: 'X', name: 'down' },
  unknown: { letter: '?', name: 'unknown' },
  drained: { letter: 'D', name: 'drained' },
  draining: { letter: 'G', name: 'draining, with jobs' },
  maintenance: { letter: 'T', name: 'in maintenance' },
  rebuilding: { letter: 'R', name: 'being rebuilt' },
  booting: { letter: 'B', name: 'booting' },
  allocated: { letter: 'A', name: 'allocated' },
  mixed: { letter: 'M', name: 'partly allocated' },
  idle: { letter: 'I', name: 'idle' },
  off: { letter: 'O', name: 'off' },
};

export const SEVERITIES = {
  broken: { letter: '!', name: 'Broken' },
  warning: { letter: 'W', name: 'Warning' },
  note: { letter: 'N', name: 'Note' },
};

export const NEEDS = {
  time: 'starts by itself',
  owner: 'its owner has to act',
  administrator: 'an administrator has to act',
  unknown: 'not known to Kiln',
};

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(time) {
  if (!time) return '';
  return span((Date.now() - Date.parse(time)) / 1000);
}

export function clock(time) {
  if (!time) return '';
  const date = new Date(time);
  const today = new Date().toDateString() === date.toDateString();
  const day = today ? '' : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  return `${day}${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function two(number) {
  return String(number).padStart(2, '0');
}

// 2 before 10.
export const byName = new Intl.Collator('en', { numeric: true }).compare;

export function plural(count, one, many = one + 's') {
  return `${count} ${count === 1 ? one : many}`;
}
