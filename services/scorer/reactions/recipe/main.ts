/**
 * `npm run train:reactions [-- --quick]`: trains the reactions judge on reactions/*.jsonl and writes weights.bin.
 * Prints what held-out contexts show, by language and wish. The same rows give the same bytes on the same Node.
 * `--quick`: keeps the thresholds of the file that is there, without the folds.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeModel } from '../../src/core/reactions/model.ts'
import { FOLDER, readData } from './data.ts'
import {
  heldOut,
  measure,
  quantised,
  temperatureOf,
  thresholdsOf,
  trainOn,
  valued,
  wishPrecision,
  type Held,
} from './train.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const FILE = join(FOLDER, 'weights.bin')
const { rows, digest } = readData()
const began = performance.now()

const calibrated = (): { temperature: number; least: { bad: number; good: number; wish: number } } => {
  if (process.argv.includes('--quick')) {
    const { temperature, least } = decodeModel(readFileSync(FILE))
    return { temperature, least }
  }
  const all = heldOut(rows, say)
  const temperature = temperatureOf(all)
  const least = thresholdsOf(all, temperature)
  const line = (name: string, of: readonly Held[]): void => {
    const { precision, recall, signs, opinions } = measure(valued(of, temperature, least))
    const figures = Object.entries({ precision, recall, signs, opinions }).map(
      ([key, value]) => `${key} ${value.toFixed(3)}`,
    )
    say(`${name.padEnd(12)} ${String(of.length).padStart(5)}  ${figures.join('  ')}`)
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

const calibration = calibrated()
const bytes = quantised(trainOn(rows), { ...calibration, data: digest })
writeFileSync(FILE, bytes)
say(`${rows.length} rows, ${(bytes.length / 1e6).toFixed(2)} MB, ${Math.round((performance.now() - began) / 1000)} s`)
