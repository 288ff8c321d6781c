/** The checks of `instar doctor`. */
import type { Finding } from '@instar/process/finding'
import type { Config } from '../config.ts'

export * from '@instar/process/finding'

/** `run`: an error that it throws is a finding of level `wrong`. */
export type Check = { name: string; run(config: Config): Promise<readonly Finding[]> }
