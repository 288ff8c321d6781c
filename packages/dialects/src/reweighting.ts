/** The request fields, common to all dialects, that change the sampling distribution. */
import { isFields, number, wrong, type Fields } from './fields.ts'
import type { Reweighting } from '@instar/engine/port'

const MAX_BIASES = 1024
const MAX_BIAS = 100
const MAX_PENALTY = 2
const MAX_REPETITION = 10

/** Null if all fields are absent or have values without effect, which some clients send. Throws `bad_request`. */
export const reweightingOf = (body: Fields): Reweighting | null => {
  const repetition = number(body, 'repetition_penalty', 0, MAX_REPETITION)
  if (repetition === 0) throw wrong('repetition_penalty', `above 0 and at most ${MAX_REPETITION}`)
  const reweighting = {
    frequencyPenalty: number(body, 'frequency_penalty', -MAX_PENALTY, MAX_PENALTY) ?? 0,
    presencePenalty: number(body, 'presence_penalty', -MAX_PENALTY, MAX_PENALTY) ?? 0,
    repetitionPenalty: repetition ?? 1,
    minP: number(body, 'min_p', 0, 1) ?? 0,
    logitBias: biasesOf(body['logit_bias']),
  }
  const { frequencyPenalty, presencePenalty, repetitionPenalty, minP, logitBias } = reweighting
  return frequencyPenalty === 0 &&
    presencePenalty === 0 &&
    repetitionPenalty === 1 &&
    minP === 0 &&
    logitBias.length === 0
    ? null
    : reweighting
}

const biasesOf = (value: unknown): [number, number][] => {
  if (value === undefined || value === null) return []
  const entries = isFields(value) ? Object.entries(value) : null
  if (
    !entries ||
    entries.length > MAX_BIASES ||
    !entries.every(([id, bias]) => /^\d{1,9}$/.test(id) && typeof bias === 'number' && Math.abs(bias) <= MAX_BIAS)
  ) {
    throw wrong(
      'logit_bias',
      `an object of up to ${MAX_BIASES} token ids, each with a number from -${MAX_BIAS} to ${MAX_BIAS}`,
    )
  }
  return entries.flatMap(([id, bias]) => (bias === 0 ? [] : [[Number(id), bias as number]]))
}
