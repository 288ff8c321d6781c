/** Findings about this machine. */
import { access, constants, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { InstarError } from '@instar/events/errors'
import { ok, wrong, type Finding } from './finding.ts'

const MIN_FREE_BYTES = 2 ** 30

export const nodeFindings = (): Finding[] => [ok(`${process.version} on ${process.platform}-${process.arch}`)]

/** Of the nearest existing folder where `data` does not exist yet. Throws `data_unreadable`. */
export const folderFindings = async (data: string): Promise<Finding[]> => {
  let folder = data
  while (!(await stat(folder).catch(() => null)) && dirname(folder) !== folder) folder = dirname(folder)
  await access(folder, constants.W_OK).catch((cause: unknown) => {
    throw new InstarError('data_unreadable', `${folder} is not writable.`, { folder }, { cause })
  })
  const { bavail, bsize } = await statfs(folder)
  const free = `${((bavail * bsize) / 2 ** 30).toFixed(1)} GiB free`
  if (bavail * bsize < MIN_FREE_BYTES)
    return [
      wrong(
        `${data}: only ${free}`,
        'Free some space, or set INSTAR_DATA to a folder on another disk. The gateway answers no request that it cannot write to the log.',
      ),
    ]
  return [ok(`${data}${folder === data ? '' : ' (created by the first start)'}, ${free}`)]
}
