/** What a page gets from its address. */
export type PageProps = { params: readonly string[]; query: URLSearchParams }
