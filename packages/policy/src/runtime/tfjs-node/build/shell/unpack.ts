/** Unpacks archives of npm and of the Python package index with Python's standard library. */
import { mkdirSync } from 'node:fs'
import { buildFailed, runProgram, type Program } from './programs.ts'

/** argv: archive, destination, name patterns. A name that resolves to a path outside the destination is an error. */
const SCRIPT = `
import fnmatch, os, shutil, sys, tarfile, zipfile
archive, destination, patterns = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3:]
def place(name):
    path = os.path.realpath(os.path.join(destination, name))
    if not path.startswith(destination + os.sep):
        sys.exit(name + ' resolves to a path outside the destination')
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path
count = 0
def copy(source, name):
    global count
    count += 1
    with source, open(place(name), 'wb') as target:
        shutil.copyfileobj(source, target, 1 << 20)
wanted = lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
if archive.endswith('.whl'):
    with zipfile.ZipFile(archive) as whole:
        for entry in whole.infolist():
            if not entry.is_dir() and wanted(entry.filename):
                copy(whole.open(entry), entry.filename)
else:
    with tarfile.open(archive) as whole:
        for entry in whole:
            if entry.isfile() and wanted(entry.name):
                copy(whole.extractfile(entry), entry.name)
print(count)
`

/** Extracts the files whose names match a pattern into `destination`; returns their number. */
export async function unpack(
  python: Program,
  archive: string,
  destination: string,
  patterns: readonly string[],
): Promise<number> {
  mkdirSync(destination, { recursive: true })
  const { code, output } = await runProgram(python, ['-', archive, destination, ...patterns], { input: SCRIPT })
  if (code !== 0)
    throw buildFailed(`${archive} could not be unpacked: ${output.trim().split('\n').at(-1) ?? ''}`, { archive })
  return Number(output)
}
