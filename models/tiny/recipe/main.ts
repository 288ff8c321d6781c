import path from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Whether the module of this `import.meta.url` is the script that was started. Also where bootstrap.cjs imported it, in
 * whose process `import.meta.main` is false for every module.
 */
export const isMain = (url: string): boolean => path.resolve(process.argv[1] ?? '') === fileURLToPath(url)
