/** The prompts to which a candidate's answers are sampled. */
import type { BatchSealed } from '@instar/events'
import { ifReadable, type TurnReader } from '@instar/log'
import type { Model } from '@instar/engine/port'
import type { PublisherConfig } from '../config.ts'
import { fixedPrompts } from './base.ts'
import type { ProbeSet } from './probes.ts'

/** Token ids of the fixed prompts, and of as many of the batch as `samples` leaves, of those that can be read. */
export const samplePrompts = async (
  ports: { model: Model; probes: ProbeSet; reader: TurnReader },
  config: PublisherConfig,
  sealed: BatchSealed,
): Promise<{ batch: number[][]; fixed: number[][] }> => {
  const fixed = fixedPrompts(ports.model, ports.probes, config)
  const batch: number[][] = []
  for (const { turn } of sealed.items) {
    if (batch.length >= config.samples - fixed.length) break
    const ids = await ifReadable(() => ports.reader.promptIds(turn))
    if (ids) batch.push(ids)
  }
  return { batch, fixed }
}
