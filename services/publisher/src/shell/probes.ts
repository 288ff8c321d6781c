/** The content probe of a model: the questions in its folder's `probes.jsonl`; none if there is no such file. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkProbe, parseProbes } from '../../../../models/tiny/recipe/probe.ts'
import type { Probe } from './evaluate.ts'

export const probesOf = (model: string): Probe[] => {
  const file = join(model, 'probes.jsonl')
  if (!existsSync(file)) return []
  return parseProbes(readFileSync(file, 'utf8')).map((probe) => ({
    question: probe.question,
    check: (answer) => checkProbe(probe, answer),
  }))
}
