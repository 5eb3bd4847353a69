// What a reader pastes into the panel of forecasts, as an input of the server.

const MISSING = ["", "na", "n/a", "nan", "null", "none", "-", "?"];

/**
 * The input in a text: numbers, or rows of a table with a time, such as `2024-05-31,17`, and perhaps a header.
 * null: there is nothing. An Error says what is wrong with the text.
 */
export function readSeries(text, { columns = [], known = [] }) {
  const lines = text.trim().split("\n").filter((line) => line.trim());
  if (!lines.length) return null;
  const mark = ["\t", ";"].find((each) => lines.at(-1).includes(each)) ?? ",";
  const rows = lines.map((line) => line.split(mark).map((cell) => cell.trim()));
  const number = (cell) => (
    MISSING.includes(cell.toLowerCase()) ? null : Number(mark === "," ? cell : cell.replace(",", "."))
  );
  const named = rows.length > 1 && rows[0].every((cell) => Number.isNaN(number(cell)));
  const header = named ? rows.shift() : null;
  const last = rows.at(-1);
  const timed = header ? !columns.includes(header[0]) : last.length > 1 && Number.isNaN(number(last[0]));
  if (!header && !timed) return { target: plain(lines) };
  const ids = header?.find((name) => ["unique_id", "series_id", "item_id"].includes(name.toLowerCase()));
  if (ids) throw new Error(`Paste the rows of one series, without the column ${ids}.`);
  const first = Number(timed);
  const places = (names, before) => names.map((name, place) => (header ? header.indexOf(name) : before + place));
  const wanted = columns.length ? columns : (header ?? rows[0]).slice(first);
  const values = places(wanted, first);
  const covariates = places(known, first + wanted.length);
  const needed = [...wanted, ...known];
  const absent = needed.find((_, place) => [...values, ...covariates][place] < 0);
  if (absent) throw new Error(`There is no column ${absent}; the model reads ${needed.join(", ")}.`);
  const cells = (row, numbers) => numbers.map((place) => number(row[place] ?? ""));
  const target = rows.map((row) => cells(row, values));
  if (target.flat().some(Number.isNaN)) throw new Error("Not all of this is numbers.");
  while (target.length && target.at(-1).every((value) => value === null)) target.pop(); // the future
  if (!target.length) throw new Error("There are no numbers.");
  const ahead = known.length ? rows.map((row) => cells(row, covariates)) : [];
  if (ahead.flat().some(Number.isNaN)) throw new Error("Not all of this is numbers.");
  const given = { target: values.length > 1 ? target : target.flat() };
  if (known.length) given.known = ahead;
  if (timed) Object.assign(given, { start: rows[0][0], end: rows[(known.length ? rows : target).length - 1][0] });
  return given;
}

/** Numbers without times: one series, or a row for each step. */
function plain(lines) {
  const rows = lines.map((line) => line.split(/[\s,;]+/).filter(Boolean).map(Number));
  if (rows.flat().some(Number.isNaN)) throw new Error("Not all of this is numbers.");
  return rows.length > 1 && rows.every((row) => row.length > 1) ? rows : rows.flat();
}
