/**
 * `npm run train:reactions [-- --quick]`: trains the reactions judge on reactions/*.jsonl and writes weights.bin, with
 * thresholds from what models without a stranger's rows make of them. The same rows give the same bytes on the same Node.
 * `--quick`: keeps the thresholds of the file that is there. `--authors` prints what models without an author's rows make
 * of them at the thresholds of the file, `--contexts` the same of held-out contexts, by language and wish; both write
 * nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeModel } from '../../src/core/reactions/model.ts'
import { FOLDER, isStranger, readData } from './data.ts'
import {
  measure,
  meanOfAuthors,
  temperatureOf,
  thresholdsOf,
  valued,
  wishPrecision,
  type Least,
  type Measure,
} from './thresholds.ts'
import { heldOut, heldOutAuthors, quantised, trainOn, type Held } from './train.ts'

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

const printAuthors = (all: readonly Held[], temperature: number, least: Least): void => {
  say(`temperature ${temperature}, least ${JSON.stringify(least)}`)
  lineOf('mean', all.length, meanOfAuthors(all, temperature, least))
  printGroups(all, temperature, least, ({ row }) => row.author)
}

const printGroups = (all: readonly Held[], temperature: number, least: Least, groupOf: (one: Held) => string): void => {
  for (const [name, of] of Map.groupBy(all, groupOf)) lineOf(name, of.length, measure(valued(of, temperature, least)))
  const { precision, recall } = wishPrecision(all, least.wish)
  say(`named wishes: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`)
}

const ofFile = (): Calibration => {
  const { temperature, least } = decodeModel(readFileSync(FILE))
  return { temperature, least }
}

const printContexts = (): void => {
  const { temperature, least } = ofFile()
  const all = heldOut(rows, say)
  for (const groupOf of [
    () => 'all',
    ({ row }: Held) => row.lang,
    ({ row }: Held) => (row.next.user === '' ? 'tools alone' : 'words'),
    ({ row }: Held) => row.wish ?? `label ${row.label}`,
  ])
    printGroups(all, temperature, least, groupOf)
}

type Calibration = { temperature: number; least: Least }

const calibrated = (): Calibration => {
  if (process.argv.includes('--quick')) return ofFile()
  const all = heldOutAuthors(rows, isStranger, say)
  const temperature = temperatureOf(all)
  const least = thresholdsOf(all, temperature)
  printAuthors(all, temperature, least)
  return { temperature, least }
}

const train = (): void => {
  const calibration = calibrated()
  const bytes = quantised(trainOn(rows), { ...calibration, data: digest })
  writeFileSync(FILE, bytes)
  say(`${rows.length} rows, ${(bytes.length / 1e6).toFixed(2)} MB, ${Math.round((performance.now() - began) / 1000)} s`)
}

if (process.argv.includes('--authors')) {
  const { temperature, least } = ofFile()
  printAuthors(
    heldOutAuthors(rows, () => true, say),
    temperature,
    least,
  )
} else if (process.argv.includes('--contexts')) printContexts()
else train()
