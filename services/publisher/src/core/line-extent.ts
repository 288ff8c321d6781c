/**
 * The extent of a line's measurements. Lengths and entropies of answers with different limits cannot be compared, so a line
 * keeps what its base was measured with: it stands in the settings of `LineStarted`.
 */
import type { LineStarted, Settings } from '@instar/events'

/** `maxTokens`: limit of a sampled answer, tokens; `fixedSamples`: fixed prompts that are answered, at most. */
export type Extent = { maxTokens: number; fixedSamples: number }

export const extentSettings = ({ maxTokens, fixedSamples }: Extent): Settings => ({
  max_tokens: maxTokens,
  fixed_samples: fixedSamples,
})

/** The settings with the extent of the line; unchanged where there is none, or one of an earlier build. */
export const ofLine = <T extends Extent>(config: T, started: Pick<LineStarted, 'settings'> | null): T => ({
  ...config,
  maxTokens: started?.settings['max_tokens'] ?? config.maxTokens,
  fixedSamples: started?.settings['fixed_samples'] ?? config.fixedSamples,
})

/** A sentence for the console where settings wait for the next line; '' otherwise. */
export const extentChange = (config: Extent, started: Pick<LineStarted, 'settings'> | null): string => {
  const kept = ofLine(config, started)
  const changed = (['maxTokens', 'fixedSamples'] as const).filter((name) => kept[name] !== config[name])
  return changed.length === 0
    ? ''
    : `the gate measures this line as it measured its base, with ${changed.map((name) => `gate.${name} ${kept[name]}`).join(' and ')}: ` +
        'the changed setting applies to lines that begin from now on'
}
