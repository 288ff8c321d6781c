/**
 * Imports files of recorded conversations into the log. The files are read twice: scan.ts finds the sessions, write.ts
 * writes them one at a time, each in its own order. Record ids are derived from the content, so a repeated import adds
 * only what is new.
 */
import { isBase } from '@instar/events'
import type { Reading } from '@instar/gateway/imported'
import { openFile } from './jsonl.ts'
import type { ImportOptions, ImportPorts } from './ports.ts'
import { emptyReport, type ImportReport } from './report.ts'
import { scanFiles, type ImportFile } from './scan.ts'
import { writeSessions } from './write.ts'

/** Throws `bad_request` for a file that cannot be read; lines that cannot be parsed are in the report. */
export const importFiles = async (
  paths: readonly string[],
  ports: ImportPorts,
  options: ImportOptions,
): Promise<ImportReport> => {
  const report = emptyReport()
  const files = await openFiles(paths)
  try {
    const reading: Reading = { ...options, decode: null }
    const sessions = await scanFiles({ files, reading, ports, report })
    report.sessions = sessions.size
    const existing = await ports.existing(new Set(sessions.keys()))
    const tokenizer = reading.decode === null ? null : await ports.tokenizer()
    // Token ids of another checkpoint have another meaning, even where they are in the range of this vocabulary.
    const sameBase = tokenizer !== null && (existing.base === null || isBase(existing.base, tokenizer))
    const line = { versions: existing.versions, vocabulary: sameBase ? tokenizer.vocabulary : null }
    await writeSessions({ files, sessions, existing, line, reading, ports, report })
    return report
  } finally {
    await closeFiles(files)
  }
}

const openFiles = async (paths: readonly string[]): Promise<ImportFile[]> => {
  const files: ImportFile[] = []
  try {
    for (const path of paths) files.push({ path, handle: await openFile(path) })
    return files
  } catch (error) {
    await closeFiles(files)
    throw error
  }
}

const closeFiles = async (files: readonly ImportFile[]): Promise<void> => {
  await Promise.all(files.map(({ handle }) => handle.close()))
}
