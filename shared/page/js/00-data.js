const psgdData = JSON.parse(document.getElementById('psgd-data').textContent);
document.getElementById('page').textContent = psgdData.mode || '';
