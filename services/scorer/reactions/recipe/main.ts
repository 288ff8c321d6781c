/**
 * `npm run train:reactions [-- --quick]`: trains the reactions judge on reactions/*.jsonl and writes weights.bin.
 * Prints what held-out contexts show, by language and wish. The same rows give the same bytes on the same Node.
 * `--quick`: keeps the thresholds of the file that is there, without the folds. `--authors`: prints what models without an
 * author's rows make of them, at those thresholds and at the best ones for strangers; writes nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeModel } from '../../src/core/reactions/model.ts'
import { FOLDER, readData } from './data.ts'
import {
  heldOut,
  heldOutAuthors,
  measure,
  meanOfAuthors,
  quantised,
  temperatureOf,
  thresholdsOf,
  trainOn,
  valued,
  wishPrecision,
  type Held,
  type Measure,
} from './train.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const FILE = join(FOLDER, 'weights.bin')
const { rows, digest } = readData()
const began = performance.now()

const lineOf = (name: string, count: number, { precision, recall, signs, opinions }: Measure): void => {
  const figures = Object.entries({ precision, recall, signs, opinions }).map(
    ([key, value]) => `${key} ${value.toFixed(3)}`,
  )
  say(`${name.padEnd(12)} ${String(count).padStart(5)}  ${figures.join('  ')}`)
}

/** What people say of whom no row is: each author's rows, by a model without them. */
const printAuthors = (): void => {
  const all = heldOutAuthors(rows, say)
  const { temperature, least } = decodeModel(readFileSync(FILE))
  for (const [name, at, bounds] of [
    ['at the thresholds of the file', temperature, least],
    ['at the best thresholds for strangers', temperatureOf(all), thresholdsOf(all, temperatureOf(all))],
  ] as const) {
    say(`${name}: temperature ${at}, least ${JSON.stringify(bounds)}`)
    lineOf('mean', all.length, meanOfAuthors(all, at, bounds))
    for (const [author, of] of Map.groupBy(all, ({ row }) => row.author))
      lineOf(author, of.length, measure(valued(of, at, bounds)))
  }
}

const calibrated = (): { temperature: number; least: { bad: number; good: number; wish: number } } => {
  if (process.argv.includes('--quick')) {
    const { temperature, least } = decodeModel(readFileSync(FILE))
    return { temperature, least }
  }
  const all = heldOut(rows, say)
  const temperature = temperatureOf(all)
  const least = thresholdsOf(all, temperature)
  const line = (name: string, of: readonly Held[]): void => {
    lineOf(name, of.length, measure(valued(of, temperature, least)))
  }
  say(`temperature ${temperature}, least ${JSON.stringify(least)}`)
  line('all', all)
  for (const [lang, of] of Map.groupBy(all, ({ row }) => row.lang)) line(lang, of)
  line(
    'tools alone',
    all.filter(({ row }) => row.next.user === ''),
  )
  for (const [wish, of] of Map.groupBy(all, ({ row }) => row.wish ?? `label ${row.label}`)) line(wish, of)
  const { precision, recall } = wishPrecision(all, least.wish)
  say(`named wishes: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`)
  return { temperature, least }
}

const train = (): void => {
  const calibration = calibrated()
  const bytes = quantised(trainOn(rows), { ...calibration, data: digest })
  writeFileSync(FILE, bytes)
  say(`${rows.length} rows, ${(bytes.length / 1e6).toFixed(2)} MB, ${Math.round((performance.now() - began) / 1000)} s`)
}

if (process.argv.includes('--authors')) printAuthors()
else train()
