import { deepEqual, ok } from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { sourceFiles, ROOT } from '../../tools/tree.ts'
import { linksOf, namedFiles, placesOf } from './links.ts'

const pages = sourceFiles().filter((path) => path.endsWith('.md') && existsSync(join(ROOT, path)))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

test('links and their anchors are found, and a heading has the anchor that GitHub gives it', () => {
  const page =
    '# A `b`: c, d\n\n## A b c d\n\n### Same\n\n### Same\n\n[x](../y.md#z) `[no](no.md)`\n```\n[no](no.md)\n```\n'
  deepEqual(linksOf(page), ['../y.md#z'])
  deepEqual([...placesOf(page)], ['a-b-c-d', 'a-b-c-d-1', 'same', 'same-1'])
  deepEqual(namedFiles('`services/a/b.ts`, `packages/c/{d,e}`, `npm test`, `docs/f.md#g`, `test/h/*`'), [
    'services/a/b.ts',
    'docs/f.md',
  ])
})

test('each relative link of each page leads to a file, and each anchor to a heading', () => {
  const broken = pages.flatMap((page) =>
    linksOf(read(page))
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [file = '', anchor] = link.split('#')
        const target = file === '' ? join(ROOT, page) : resolve(ROOT, dirname(page), file)
        if (!existsSync(target)) return true
        return anchor !== undefined && !placesOf(read(relative(ROOT, target))).has(anchor)
      })
      .map((link) => `${page}: ${link}`),
  )
  deepEqual(broken, [])
})

test('each file of the repository that a page names in code exists', () => {
  const named = pages.flatMap((page) => namedFiles(read(page)).map((file) => ({ page, file })))
  ok(named.length > 50, `${named.length} files`)
  deepEqual(
    named
      .filter(({ file }) => ['', '.test.ts'].every((end) => !existsSync(join(ROOT, `${file}${end}`))))
      .map(({ page, file }) => `${page}: ${file}`),
    [],
  )
})

test('each page of docs/ is reachable from README.md', () => {
  const reached = new Set<string>()
  const visit = (page: string): void => {
    if (reached.has(page)) return
    reached.add(page)
    for (const link of linksOf(read(page))) {
      const target = relative(ROOT, resolve(ROOT, dirname(page), link.split('#')[0]!))
      if (pages.includes(target)) visit(target)
    }
  }
  visit('README.md')
  deepEqual(
    pages.filter((page) => page.startsWith('docs/') && !reached.has(page)),
    [],
  )
})
