/** The section `prices` of the settings file: what a provider of training asks for, and what an update costs by it. */
import { z } from 'zod'
import type { Section } from './fields.ts'

const price = z.number().nonnegative().nullable().default(null)

export const pricesConfig = z.object({
  currency: z
    .string()
    .min(1)
    .max(16)
    .nullable()
    .default(null)
    .describe('currency of the prices, as it is shown (EUR); null: no cost is shown'),
  forward: price.describe('price of a million tokens of forward passes; null: no cost is shown'),
  forwardBackward: price.describe('price of a million tokens of passes with gradients; null: no cost is shown'),
  sampling: price.describe(
    'price of a million tokens of sampled answers, those of the gate among them; null: sampling is not counted',
  ),
})
export type Prices = z.output<typeof pricesConfig>

export const pricesSection: Section<typeof pricesConfig> = { name: 'prices', schema: pricesConfig }

export type Cost = { currency: string; amount: number }

const MILLION = 1e6

/**
 * An estimate of what an update costs, from its recorded figures: all tokens of its passes, and those of the answers that
 * were trained on (`tokens`), which were sampled once. `gateTokens`: those that the gate sampled for its verdict (`tokens` of
 * its figures), priced like them. Null without prices, and for an update whose passes were not
 * counted.
 */
export const updateCost = (
  figures: Readonly<Record<string, number>>,
  { currency, forward, forwardBackward, sampling }: Prices,
  gateTokens = 0,
): Cost | null => {
  if (currency === null || forward === null || forwardBackward === null) return null
  const { forwardPromptTokens, forwardResponseTokens, teacherTokens, backwardPromptTokens, backwardResponseTokens } =
    figures
  if (forwardPromptTokens === undefined || backwardPromptTokens === undefined) return null
  const forwardTokens = forwardPromptTokens + (forwardResponseTokens ?? 0) + (teacherTokens ?? 0)
  const backwardTokens = backwardPromptTokens + (backwardResponseTokens ?? 0)
  const sampled = (figures.tokens ?? 0) + gateTokens
  const amount = forwardTokens * forward + backwardTokens * forwardBackward + sampled * (sampling ?? 0)
  return { currency, amount: amount / MILLION }
}
