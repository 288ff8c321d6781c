/** The section `gate` of the settings file. */
import type { Section } from '@instar/process'
import { publisherConfig } from './config.ts'

export const gateSection: Section<typeof publisherConfig> = {
  name: 'gate',
  schema: publisherConfig,
  lifted: ['thresholds'],
  hidden: ['policy'],
  secrets: { 'judge.key': 'INSTAR_JUDGE_KEY' },
  addresses: ['judge.url'],
}
