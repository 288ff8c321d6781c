/** The checks of `instar doctor`. */
import { unsure, type Finding } from '@instar/process/finding'
import type { Config } from '../config.ts'

export * from '@instar/process/finding'

/** `run`: an error that it throws is a finding of level `wrong`. It may end early once `stop` is aborted. */
export type Check = { name: string; run(config: Config, stop?: AbortSignal): Promise<readonly Finding[]> }

/** Tells an error that several checks end with once: further checks name the first one. */
export const errorsOnce = (): ((name: string, findings: readonly Finding[]) => Finding[]) => {
  const first = new Map<string, string>()
  return (name, findings) =>
    findings.map((finding) => {
      if (finding.level !== 'wrong') return finding
      const before = first.get(finding.found)
      if (before === undefined) first.set(finding.found, name)
      return before === undefined || before === name
        ? finding
        : unsure(`not checked, for the reason under ${before}`, 'Correct that first.')
    })
}
