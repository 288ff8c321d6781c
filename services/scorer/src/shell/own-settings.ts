/**
 * The settings of a scorer of its own process: those that `up` would have, by the size of the model as well. Where the
 * weights are on servers alone, config.json tells the size; without it the defaults of the schema hold.
 */
import { holdsWeights } from '@instar/policy/checkpoints/folder'
import { estimatedParameters, parameterCount } from '@instar/policy/checkpoints/open'
import { readSettingsFile, resolveSection, type Resolved, type Settings } from '@instar/process'
import type { ScorerConfig } from '../config.ts'
import { judgeSection } from '../section.ts'

/** Throws `bad_request` for the file and for values, `bad_checkpoint` for the model, of which headers alone are read. */
export const ownSettings = ({ learning, model }: Pick<Settings, 'learning' | 'model'>): Resolved<ScorerConfig> =>
  resolveSection(judgeSection, {
    file: readSettingsFile(learning.source),
    environment: learning.environment,
    parameters: holdsWeights(model) ? parameterCount(model) : estimatedParameters(model),
  })
