/** Makes the names of files that were made, renamed or removed in a folder durable. */
import { open } from 'node:fs/promises'

export const syncFolder = async (path: string): Promise<void> => {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
