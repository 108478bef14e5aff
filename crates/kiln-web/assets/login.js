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

form.addEventListener('submit', (event) => {
  event.preventDefault();
  logIn(document.getElementById('token').value, '').catch(() => { message.textContent = 'kilnd cannot be reached'; });
});

const word = location.hash.slice(1);
const isPage = word.startsWith('/');
// It must not stay in the history.
if (word) history.replaceState(null, '', '/login');

if (word && !isPage) {
  logIn(word, '').catch(() => { message.textContent = 'kilnd cannot be reached'; });
} else {
  // Somebody who came by a link from another site has a session that the browser did not send along.
  fetch('/api/v1/session').then((answer) => { if (answer.ok) location.replace('/' + (isPage ? '#' + word : '')); });
}
