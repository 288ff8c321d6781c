/** The comparison of an archive with the log of INSTAR_LOG, which may be in use. */
import { compareWithLog, type Archive, type CopyProgress, type LogComparison } from '@instar/log'
import type { CommandContext } from './command.ts'
import type { Config } from './config.ts'
import { openSource, parseLogAddress } from './log-addresses.ts'
import { minuteText } from './table.ts'

/** `registry`: URL of the schema registry of a log on Kafka; absent: that of the settings. */
export const comparedWithLog = async (
  { config, cwd, err, stop }: Pick<CommandContext, 'cwd' | 'err' | 'stop'> & { config: Config },
  archive: Archive,
  registry: string | undefined,
  onProgress: (progress: CopyProgress) => void,
): Promise<LogComparison> => {
  const address = parseLogAddress(config.log, config, cwd, registry ?? config.registry)
  const source = await openSource(address, null, (line) => err(`${line}\n`))
  try {
    return await compareWithLog(archive, source, { onProgress, signal: stop })
  } finally {
    await source.close()
  }
}

export const comparisonText = ({ records, damaged, behind, checkpoints, first }: LogComparison): string => {
  const states = checkpoints.map(
    ({ name, at, archived }) =>
      `${name}: the log before the checkpoint of ${minuteText(at)} UTC is ${archived ? 'archived' : 'not all archived'}\n`,
  )
  const verdict = first
    ? `DIFFERENT from the log at ${first.topic} ${first.partition}@${first.offset}, key ${first.key}: ${first.what}\n`
    : `as the log has them: ${records} records${damaged > 0 ? `, and ${damaged} that are damaged there` : ''}; the log has ${behind} more\n`
  return `${states.join('')}${verdict}`
}
