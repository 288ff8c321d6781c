/** The section `judge` of the settings file. */
import type { Section } from '@instar/process'
import { scorerConfig } from './config.ts'

export const judgeSection: Section<typeof scorerConfig> = {
  name: 'judge',
  schema: scorerConfig,
  hidden: ['policy'],
  renamed: { judges: 'order' },
  borrowed: {
    staleness: 'training.staleness',
    batchSize: 'training.batchSize',
    batchMax: 'training.batchMax',
  },
  secrets: { 'llm.key': 'INSTAR_JUDGE_KEY' },
  addresses: ['llm.url'],
}
