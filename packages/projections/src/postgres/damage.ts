/**
 * Whether the files of the embedded PostgreSQL are damaged, by the SQLSTATE of its errors. The server starts on most
 * damaged files and fails where it reads them; its data can be rebuilt from the log.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { ServerPaths } from './server-paths.ts'

/** The server's `log_line_prefix`: time, process id, SQLSTATE. */
export const LINE_PREFIX = '%m [%p] %e '

/** data_corrupted, index_corrupted, undefined_file. */
const DAMAGED = ['XX001', 'XX002', '58P01']
/**
 * What a start on damaged catalogs also reports, since it needs only what initdb creates: internal_error, invalid_catalog_name,
 * io_error, undefined_table, undefined_function, undefined_object, duplicate_database, duplicate_object.
 */
const DAMAGED_CATALOG = [...DAMAGED, 'XX000', '3D000', '58030', '42P01', '42883', '42704', '42P04', '42710']

/** Whether an error while roles and database were prepared shows damaged catalogs. */
export const isDamage = (error: unknown): boolean => DAMAGED_CATALOG.includes((error as { code?: string }).code ?? '')

const REPORTED = new RegExp(`^[^[]*\\[\\d+\\] (?:${DAMAGED.join('|')}) (?:ERROR|FATAL|PANIC): (.*)$`, 'm')

/** Bytes of the end of the server's log that are read: the projection repeats what fails every two seconds. */
const TAIL_BYTES = 1 << 20

/** An error about damaged data among the last that the server's last run has logged. */
export const reportedDamage = ({ log }: ServerPaths): string | undefined => REPORTED.exec(endOf(log))?.[1]?.trim()

const endOf = (path: string): string => {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
  try {
    const { size } = fstatSync(file)
    const tail = Buffer.alloc(Math.min(size, TAIL_BYTES))
    readSync(file, tail, 0, tail.length, size - tail.length)
    return tail.toString()
  } finally {
    closeSync(file)
  }
}
