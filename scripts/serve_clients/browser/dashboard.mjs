// The dashboard of `perdure serve` in a real browser, while the server is under load:
//
//   node dashboard.mjs ADDRESS SCREENSHOT KEYS
//
// The server was killed when it had KEYS keys, and has opened its pool again. Waits until the page
// shows what it is there for, and compares it with /stats.json. Fails on an error or a warning in
// the console, on a request that fails, and on one to another host.
import sparticuz from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const [address, screenshot, keys] = process.argv.slice(2);
const number = (text) => Number(text.replaceAll(",", ""));
const faults = [];

function check(what, good, found) {
  if (!good) throw new Error(`${what}: found ${JSON.stringify(found)}`);
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || (await sparticuz.executablePath()),
  // As root, which CI is, Chromium has no sandbox; it sees no page but ours.
  chromiumSandbox: process.getuid() !== 0,
});
try {
  const page = await browser.newPage({ viewport: { width: 1000, height: 820 } });
  let requests = 0;
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) faults.push(`console: ${said.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.message}`));
  page.on("requestfailed", (request) => faults.push(`failed: ${request.url()}`));
  page.on("request", (request) => {
    requests += 1;
    if (!request.url().startsWith(address)) faults.push(`another host: ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() !== 200) faults.push(`${response.status()}: ${response.url()}`);
  });

  await page.goto(address);
  check("title", (await page.title()) === "Perdure", await page.title());
  const looks = {
    state: /^running for [1-9]\d* s$/,
    rate: /^[1-9][\d,]*$/,
    batch: /^[1-9]\d*\.\d in a batch$/,
    p99: /^p99 ([1-9]\d* µs|[1-9]\d*\.\d ms)$/,
    p50: /^p50 ([1-9]\d* µs|[1-9]\d*\.\d ms); rounded up/,
    records: /^[1-9][\d,]*$/,
    load: /^load factor 0\.(0[1-9]|[1-9]\d); 0 expired$/,
    used: /^[1-9]\d*\.\d [MG]iB$/,
    pool: /^of a pool of [1-9]\d*\.\d [MG]iB$/,
    clients: /^[1-9]\d*$/,
    refused: /^0 refused, 0 dropped as slow$/,
    log: /^[1-9]\d*(\.\d [KMG]iB| B)$/,
    checkpoints: /^[\d,]+ checkpoints$/,
    most: /^highest: [1-9][\d,]*$/,
  };
  // All texts of one moment: under load, with six points of the line, which take six seconds.
  const moment = await page.waitForFunction(
    (ids) => {
      const shown = Object.fromEntries(
        ids.map((id) => [id, document.getElementById(id).textContent]),
      );
      const points = document.getElementById("line").getAttribute("points").split(" ");
      return Number(shown.rate.replaceAll(",", "")) > 0 && points.length >= 6 && shown;
    },
    Object.keys(looks),
    { timeout: 60_000 },
  );
  const shown = await moment.jsonValue();
  await page.screenshot({ path: screenshot, fullPage: true });
  for (const [id, look] of Object.entries(looks)) check(id, look.test(shown[id]), shown[id]);
  check("highest", number(shown.most.slice(9)) >= number(shown.rate), shown.most);

  const stats = await (await fetch(`${address}stats.json`)).json();
  const recovery = stats.recovery;
  const rows = await page.locator("#recovery tr").evaluateAll((all) =>
    all.map((row) => [...row.cells].map((cell) => cell.textContent)),
  );
  const expected = Object.entries(recovery).map(([name, value]) => [
    name.replaceAll("_", " "),
    String(value),
  ]);
  check("recovery", JSON.stringify(rows) === JSON.stringify(expected), rows);
  check("recovery after a kill", !recovery.clean && recovery.records === Number(keys), rows);
  check("keys", number(shown.records) <= stats.pool.records, shown.records);

  check("faults", faults.length === 0, faults);
  console.log(
    `browser: Chromium ${browser.version()}, ${requests} requests, no fault; the page shows ` +
      `${shown.rate} commands/s, ${shown.p99}, ${shown.load.split(";")[0]}, ${shown.used}, ` +
      `log ${shown.log}, recovery of ${recovery.records} records`,
  );
} finally {
  await browser.close();
}
