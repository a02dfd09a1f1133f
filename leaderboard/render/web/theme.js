// The theme that was chosen on any page of this board; null where the browser forbids storage, as for some local files.

function storedTheme(value) {
  try {
    if (value) localStorage.setItem('lprime-theme', value);
    return localStorage.getItem('lprime-theme');
  } catch {
    return null;
  }
}

if (['dark', 'light'].includes(storedTheme())) document.documentElement.dataset.theme = storedTheme();
