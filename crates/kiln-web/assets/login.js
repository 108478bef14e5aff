// A one-time login stands behind the # of the address, which browsers do not send: this page hands it over.

const form = document.getElementById('form');
const message = document.getElementById('message');

async function logIn(token, page) {
  const answer = await fetch('/api/v1/login', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) {
    location.replace('/' + page);
    return;
  }
  const { error } = await answer.json().catch(() => ({ error: 'kilnd does not answer' }));
  message.textContent = error;
}

// What /login/oidc leads back here with.
const PROBLEMS = {
  provider: "The site's login cannot be used at present: it does not answer as it should. Sessions that have begun go on. Try again later, or use a token.",
  unknown: 'This login was begun in another window, took too long, or is over already. Try again.',
  refused: "The site's login did not let you in.",
  untrusted: "What the site's login said of you cannot be relied on, so you were not let in. kilnd's log says why.",
  role: 'You are known, but have no role here. Ask whoever runs the cluster.',
  name: "The site's login gives you no name that can be used here. kilnd's log says more.",
  busy: 'There were too many attempts from your address. Wait a minute.',
};
const problem = new URLSearchParams(location.search).get('problem');
if (problem) message.textContent = PROBLEMS[problem] ?? 'That did not work. Try again.';

// The page that was asked for is to be there after the way over the site's login.
const PAGE = 'kiln-page';

fetch('/api/v1/logins').then((answer) => answer.json()).then(({ provider }) => {
  if (!provider) return;
  document.getElementById('provider-name').textContent = provider;
  document.getElementById('provider').hidden = false;
}).catch(() => {});

form.addEventListener('submit', (event) => {
  event.preventDefault();
  logIn(document.getElementById('token').value, '').catch(() => { message.textContent = 'kilnd cannot be reached'; });
});

const word = location.hash.slice(1);
const isPage = word.startsWith('/');
if (isPage) sessionStorage.setItem(PAGE, word);
// It must not stay in the history.
if (word) history.replaceState(null, '', '/login');

if (word && !isPage) {
  logIn(word, '').catch(() => { message.textContent = 'kilnd cannot be reached'; });
} else {
  // Somebody who came by a link from another site has a session that the browser did not send along.
  fetch('/api/v1/session').then((answer) => {
    if (!answer.ok) return;
    const page = sessionStorage.getItem(PAGE);
    sessionStorage.removeItem(PAGE);
    location.replace('/' + (page ? '#' + page : ''));
  });
}
