/** The section `training` of the settings file. */
import type { Section } from '@instar/process'
import { trainerConfig } from './config.ts'

export const trainingSection: Section<typeof trainerConfig> = {
  name: 'training',
  schema: trainerConfig,
  lifted: ['step'],
  hidden: ['policy'],
  secrets: { serverKey: 'INSTAR_TRAINER_KEY' },
}
