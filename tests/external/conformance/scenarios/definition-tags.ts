/**
 * Definition tags test scenarios for MCP servers
 *
 * Definition tags are a draft of the transports working group. A list (or
 * `server/discover`) has a `tag`, which changes with any definition in it. A
 * client sends the tags it knows with a call; the server ignores them, honors
 * them, honors and signals, or rejects the call as stale.
 *
 * No capability announces tags: they are optional fields and `_meta` keys of
 * 2026-07-28, so these scenarios run on its wire.
 */

import type {
  CheckStatus,
  ClientScenario,
  ConformanceCheck,
  SpecReference
} from '../../types';
import type { Connection, RunContext } from '../../connection';

const DRAFT =
  'https://github.com/modelcontextprotocol/transports-wg/blob/65a36f9eddc015fc1f646fd7532cd3c021ca98fb/proposals';

const TAGS: SpecReference = {
  id: 'Definition-Tags',
  url: `${DRAFT}/XXXX-definition-tags.md`
};
const LIST_CACHE_UNIT: SpecReference = {
  id: 'List-Cache-Unit',
  url: `${DRAFT}/XXXX-list-cache-unit.md`
};
const CACHING: SpecReference = {
  id: 'MCP-Caching',
  url: 'https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching'
};

const KNOWN_TAGS = 'io.modelcontextprotocol/knownTags';
const STALE_TAGS = 'io.modelcontextprotocol/staleTags';
const TOOLS = 'tools/list';

const CHANGE = 'test_definition_tags_change';
const REMOVED = 'test_definition_tags_removed';
const ADDED = 'test_definition_tags_added';
const COUNT = 'test_definition_tags_count';

const UNKNOWN_TAG = 'a tag that no server gave';

/** More pages than any server under test needs: where a cursor runs in circles, the scenario ends. */
const MAX_PAGES = 100;

const FIXTURE = `**Server Implementation Requirements:**

Implement four tools without arguments; each answers with one text:
- \`${CHANGE}\` leads to another list of tools: \`${REMOVED}\` is not in it, \`${ADDED}\` is
- \`${REMOVED}\` is listed at first, and answers \`removed\`
- \`${ADDED}\` is listed after the change, and answers \`added\`
- \`${COUNT}\` is listed always, and answers how often it has been called

2026-07-28 wants state between requests to be named by an explicit identifier
in each of them. If the list depends on one, put it in the \`_meta\` of the
result of \`${CHANGE}\`, in keys with a prefix of your own: later requests
carry these keys as they are. A request without them gets the first list.`;

type Fields = Record<string, unknown>;

/** What a server answered: a result, or an error. */
interface Answer {
  result?: Fields;
  error?: { code?: number; message: string; data?: unknown };
}

/** A list that was read to its end. */
interface List {
  names: string[];
  tags: unknown[];
  pages: Fields[];
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function ask(
  conn: Connection,
  method: string,
  params: Fields = {},
  meta: Fields = {}
): Promise<Answer> {
  try {
    const result = await conn.request<Fields>(method, {
      ...params,
      _meta: meta
    });
    return { result };
  } catch (error) {
    const { code, message, data } = error as Partial<
      NonNullable<Answer['error']>
    >;
    return { error: { code, message: message ?? String(error), data } };
  }
}

function call(
  conn: Connection,
  name: string,
  known?: unknown,
  state: Fields = {}
): Promise<Answer> {
  const tags = known === undefined ? {} : { [KNOWN_TAGS]: known };
  return ask(
    conn,
    'tools/call',
    { name, arguments: {} },
    { ...state, ...tags }
  );
}

async function list(
  conn: Connection,
  method: string,
  key: string,
  state: Fields = {}
): Promise<List> {
  const pages: Fields[] = [];
  const names: string[] = [];
  let cursor: unknown = undefined;
  do {
    const params = cursor === undefined ? {} : { cursor };
    const { result, error } = await ask(conn, method, params, state);
    if (!result) {
      throw new Error(`${method} failed: ${error?.message}`);
    }
    pages.push(result);
    const items = Array.isArray(result[key]) ? (result[key] as Fields[]) : [];
    names.push(...items.map((item) => String(item.name)));
    cursor = result.nextCursor;
  } while (cursor !== undefined && pages.length < MAX_PAGES);
  return { names, tags: pages.map((page) => page.tag), pages };
}

function listTools(conn: Connection, state: Fields = {}): Promise<List> {
  return list(conn, TOOLS, 'tools', state);
}

/** The texts of a result that is no error; undefined for any other answer. */
function textOf(answer: Answer): string | undefined {
  if (!answer.result || answer.result.isError === true) return undefined;
  const content = answer.result.content as Fields[] | undefined;
  return (content ?? []).map((block) => block.text).join('');
}

/** What an answer names as stale: of a result in `_meta`, of an error in `data`. */
function staleTagsOf(answer: Answer): unknown {
  const { result, error } = answer;
  if (result) {
    return isObject(result._meta) ? result._meta[STALE_TAGS] : undefined;
  }
  return isObject(error?.data) ? error.data.staleTags : undefined;
}

function rejects(answer: Answer): boolean {
  return answer.error !== undefined && staleTagsOf(answer) !== undefined;
}

/** The identifiers of state in a result, to be sent with later requests. */
function stateOf(answer: Answer): Fields {
  const meta = isObject(answer.result?._meta) ? answer.result._meta : {};
  const own = Object.entries(meta).filter(
    ([key]) => key.includes('/') && !key.startsWith('io.modelcontextprotocol/')
  );
  return Object.fromEntries(own);
}

function isJust(value: unknown, ...methods: string[]): boolean {
  return (
    Array.isArray(value) &&
    value.length === methods.length &&
    methods.every((method) => value.includes(method))
  );
}

/** What happened, for the message of a check. */
function seen(answer: Answer): string {
  const { result, error } = answer;
  const what = error
    ? `error ${error.code}: ${error.message}`
    : result?.isError
      ? 'a tool error'
      : `a result with the text ${JSON.stringify(textOf(answer))}`;
  return `${what}, staleTags ${JSON.stringify(staleTagsOf(answer)) ?? 'absent'}`;
}

interface Verdict {
  /** What is wrong; nothing is, if empty or absent. */
  error?: string;
  /** The status if something is wrong. */
  severity?: CheckStatus;
  references?: SpecReference[];
  details?: Fields;
}

function check(
  id: string,
  name: string,
  description: string,
  { error, severity = 'FAILURE', references = [TAGS], details }: Verdict
): ConformanceCheck {
  return {
    id,
    name,
    description,
    status: error ? severity : 'SUCCESS',
    timestamp: new Date().toISOString(),
    errorMessage: error || undefined,
    specReferences: references,
    details
  };
}

/** What all scenarios here have: an end to the connection, and a check that names a missing prerequisite. */
abstract class DefinitionTagsScenario implements ClientScenario {
  abstract name: string;
  abstract description: string;
  readonly source = { introducedIn: '2026-07-28' } as const;

  protected abstract judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void>;

  async run(ctx: RunContext): Promise<ConformanceCheck[]> {
    const checks: ConformanceCheck[] = [];
    let conn: Connection | undefined;
    let reason = '';
    try {
      conn = await ctx.connect();
      await this.judge(conn, checks);
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    } finally {
      await conn?.close();
    }
    checks.push(
      check(
        `${this.name}-testable`,
        'DefinitionTagsTestable',
        'The server has tags and the tools that the scenario needs',
        reason
          ? {
              error: `Not testable: ${reason}`,
              details: { untestable: true, reason }
            }
          : {}
      )
    );
    return checks;
  }

  /** Read the first list of tools, which must have a tag. */
  protected async first(
    conn: Connection
  ): Promise<{ list: List; tag: string }> {
    const first = await listTools(conn);
    for (const name of [CHANGE, REMOVED, COUNT]) {
      if (!first.names.includes(name)) {
        throw new Error(`tools/list does not have the tool ${name}`);
      }
    }
    const tag = first.tags[0];
    if (typeof tag !== 'string') {
      throw new Error('tools/list has no tag');
    }
    return { list: first, tag };
  }

  /** Return the tags that the list of tools and the introduction have now. */
  protected async present(conn: Connection): Promise<Fields> {
    const { tag } = await this.first(conn);
    const { tag: introduction } = await conn.discover();
    return {
      [TOOLS]: tag,
      ...(introduction === undefined ? {} : { 'server/discover': introduction })
    };
  }

  /** Change the list; return the answer, the state that it leads to, and the list there. */
  protected async changed(
    conn: Connection,
    known?: Fields
  ): Promise<{ answer: Answer; state: Fields; list: List; tag: string }> {
    const answer = await call(conn, CHANGE, known);
    if (textOf(answer) === undefined) {
      throw new Error(`${CHANGE} was answered with ${seen(answer)}`);
    }
    const state = stateOf(answer);
    const after = await listTools(conn, state);
    if (after.names.includes(REMOVED) || !after.names.includes(ADDED)) {
      throw new Error(`after ${CHANGE}, tools/list has ${after.names}`);
    }
    const tag = after.tags[0];
    if (typeof tag !== 'string') {
      throw new Error(`after ${CHANGE}, tools/list has no tag`);
    }
    return { answer, state, list: after, tag };
  }
}

const CURSOR_LISTS: Record<string, [capability: string, key: string]> = {
  [TOOLS]: ['tools', 'tools'],
  'prompts/list': ['prompts', 'prompts'],
  'resources/list': ['resources', 'resources'],
  'resources/templates/list': ['resources', 'resourceTemplates']
};

export class DefinitionTagsListsScenario extends DefinitionTagsScenario {
  name = 'definition-tags-lists';
  description = `Tests that a server that tags its lists gives tags that say what a list is, whatever its pages.

A \`tag\` is deterministic; adding, removing or changing a definition changes
it; page size, cursors and TTL do not. Tags are optional: a list other than
\`tools/list\` may have none.

${FIXTURE}

For the checks of pages, give \`tools/list\` at least two.`;

  protected async judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void> {
    const discovered = await conn.discover();
    const capabilities = (discovered.capabilities ?? {}) as Fields;
    const tags: Fields = { 'server/discover': discovered.tag };
    for (const [method, [capability, key]] of Object.entries(CURSOR_LISTS)) {
      if (capability in capabilities) {
        tags[method] = (await list(conn, method, key)).tags[0];
      }
    }
    const wrong = Object.entries(tags)
      .filter(([, tag]) => tag !== undefined)
      .filter(([, tag]) => typeof tag !== 'string' || tag === '')
      .map(([method, tag]) => `${method} has the tag ${JSON.stringify(tag)}`);
    checks.push(
      check(
        'definition-tags-are-strings',
        'DefinitionTagsAreStrings',
        'Where a result has a tag, that is a string, and not an empty one',
        { error: wrong.join('; '), details: { tags } }
      )
    );

    const first = await this.first(conn);
    const after = await this.changed(conn);
    checks.push(
      check(
        'definition-tags-change-with-definitions',
        'DefinitionTagsChangeWithDefinitions',
        'Adding and removing a definition changes the tag (MUST)',
        {
          error:
            after.tag === first.tag
              ? `two lists have the tag ${first.tag}: of ${first.list.names}, and of ${after.list.names}`
              : '',
          details: { before: first.list, after: after.list }
        }
      )
    );

    const again = await listTools(conn);
    const same =
      JSON.stringify([...again.names].sort()) ===
      JSON.stringify([...first.list.names].sort());
    if (!same) {
      throw new Error(
        `a request without the identifier does not get the first list, but ${again.names}`
      );
    }
    const stable =
      JSON.stringify(again.tags) === JSON.stringify(first.list.tags);
    checks.push(
      check(
        'definition-tags-deterministic',
        'DefinitionTagsDeterministic',
        'The same definitions have the same tag when they are listed again (MUST)',
        {
          error: stable
            ? ''
            : `the same list had the tags ${JSON.stringify(first.list.tags)}, then ${JSON.stringify(again.tags)}`
        }
      )
    );

    checks.push(this.ofPages(again, stable), this.hintsOfPages(again));
  }

  private ofPages({ tags, pages }: List, stable: boolean): ConformanceCheck {
    const differ = new Set(tags).size > 1;
    // Pages of live data may have the tags of their moments, hence SHOULD.
    // Tags that differ and do not change are of pages, which they MUST NOT be.
    const result = check(
      'definition-tags-of-the-collection',
      'DefinitionTagsOfTheCollection',
      'A tag is of the complete collection, not of the page: each page has the same (SHOULD), and cursors do not change it (MUST)',
      {
        error: differ
          ? `the pages of tools/list have the tags ${JSON.stringify(tags)}`
          : '',
        severity: stable ? 'FAILURE' : 'WARNING',
        references: [TAGS, LIST_CACHE_UNIT],
        details: { pages: pages.length }
      }
    );
    return pages.length > 1 ? result : this.onePage(result);
  }

  private hintsOfPages({ pages }: List): ConformanceCheck {
    const scopes = pages.map((page) => page.cacheScope);
    const ttls = pages.map((page) => page.ttlMs);
    const scoped = new Set(scopes).size > 1;
    const errors = [
      scoped ? `cacheScope is ${JSON.stringify(scopes)}` : '',
      new Set(ttls).size > 1 ? `ttlMs is ${JSON.stringify(ttls)}` : ''
    ];
    const result = check(
      'definition-tags-hints-of-the-collection',
      'DefinitionTagsHintsOfTheCollection',
      'The pages of a list have the same cacheScope (MUST, 2026-07-28) and the same ttlMs (SHOULD)',
      {
        error: errors.filter(Boolean).join('; '),
        severity: scoped ? 'FAILURE' : 'WARNING',
        references: [CACHING, LIST_CACHE_UNIT]
      }
    );
    return pages.length > 1 ? result : this.onePage(result);
  }

  private onePage(result: ConformanceCheck): ConformanceCheck {
    const errorMessage = 'tools/list has one page';
    return { ...result, status: 'SKIPPED', errorMessage };
  }
}

export class DefinitionTagsHintsScenario extends DefinitionTagsScenario {
  name = 'definition-tags-hints';
  description = `Tests that known tags remain hints: a call is refused for none that is present, malformed, or of a list on which the call does not depend.

It holds for each of the four choices, also for a server that ignores known
tags.

${FIXTURE}`;

  protected async judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void> {
    const current = await this.present(conn);
    const tag = current[TOOLS];
    const answer = await call(conn, COUNT, current);
    checks.push(
      check(
        'definition-tags-current',
        'DefinitionTagsCurrent',
        'A call with the present tags succeeds, and nothing is called stale',
        {
          error:
            textOf(answer) === undefined || staleTagsOf(answer) !== undefined
              ? `a call with the present tags was answered with ${seen(answer)}`
              : '',
          details: { known: current }
        }
      )
    );

    const malformed: unknown[] = [
      { [TOOLS]: 7 },
      { [TOOLS]: null },
      { 'test/unknown': UNKNOWN_TAG },
      {},
      [tag],
      tag
    ];
    const errors: string[] = [];
    for (const known of malformed) {
      const one = await call(conn, COUNT, known);
      if (textOf(one) === undefined || staleTagsOf(one) !== undefined) {
        errors.push(`${JSON.stringify(known)} got ${seen(one)}`);
      }
    }
    checks.push(
      check(
        'definition-tags-malformed',
        'DefinitionTagsMalformed',
        'What is no tag, and methods that the server does not tag, are as if they had not been sent',
        { error: errors.join('; ') }
      )
    );

    const known = { ...current, 'prompts/list': UNKNOWN_TAG };
    const other = await call(conn, COUNT, known);
    const named = staleTagsOf(other);
    const right = named === undefined || isJust(named, 'prompts/list');
    checks.push(
      check(
        'definition-tags-irrelevant',
        'DefinitionTagsIrrelevant',
        'A tag of prompts/list does not reject tools/call (MUST); it may be named',
        {
          error:
            textOf(other) === undefined || !right
              ? `a call with another tag of prompts/list was answered with ${seen(other)}`
              : '',
          details: { known }
        }
      )
    );
  }
}

export class DefinitionTagsStaleScenario extends DefinitionTagsScenario {
  name = 'definition-tags-stale';
  description = `Tests what a server does with a call whose client knows an older list of tools.

It may ignore that, signal it, or reject the call. What it signals or rejects,
it says in the form of the draft. A server that signals passes over the checks
of rejections.

${FIXTURE}`;

  protected async judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void> {
    const { tag } = await this.first(conn);
    const { state } = await this.changed(conn);
    const known = { [TOOLS]: tag };

    const before = await this.count(conn, state);
    const answer = await call(conn, COUNT, known, state);
    const named = staleTagsOf(answer);
    const rejected = rejects(answer);
    const choice = rejected ? 'reject' : named ? 'signal' : 'ignore';
    const right =
      named === undefined
        ? textOf(answer) !== undefined
        : isJust(named, TOOLS) && (rejected || textOf(answer) !== undefined);
    checks.push(
      check(
        'definition-tags-stale-named',
        'DefinitionTagsStaleNamed',
        'A call with an older tag of tools/list is served, or rejected; staleTags is an array of methods, here of tools/list alone',
        {
          error: right
            ? ''
            : `a call with the tag of the first list was answered with ${seen(answer)}`,
          details: { choice, known, code: answer.error?.code, staleTags: named }
        }
      )
    );

    const effect = check(
      'definition-tags-rejected-without-effect',
      'DefinitionTagsRejectedWithoutEffect',
      'A rejected call has no side effect',
      {
        error:
          rejected && (await this.count(conn, state)) !== before + 1
            ? `${COUNT} ran although the call was rejected`
            : ''
      }
    );
    const unknown = await call(conn, 'test_no_such_tool', known, state);
    const order = check(
      'definition-tags-rejected-first',
      'DefinitionTagsRejectedFirst',
      'Tags are validated before the operation itself (SHOULD): a call that is wrong as well is rejected as stale',
      {
        error: isJust(staleTagsOf(unknown), TOOLS)
          ? ''
          : `a stale call of a tool that does not exist was answered with ${seen(unknown)}`,
        severity: 'WARNING'
      }
    );
    for (const one of [effect, order]) {
      const errorMessage = `the server did not reject: it made the choice ${choice}`;
      checks.push(rejected ? one : { ...one, status: 'SKIPPED', errorMessage });
    }
  }

  /** Call the tool that counts; return what it says. */
  private async count(conn: Connection, state: Fields): Promise<number> {
    const answer = await call(conn, COUNT, undefined, state);
    const count = Number(textOf(answer));
    if (!Number.isInteger(count)) {
      throw new Error(`${COUNT} was answered with ${seen(answer)}`);
    }
    return count;
  }
}

export class DefinitionTagsHonorScenario extends DefinitionTagsScenario {
  name = 'definition-tags-honor';
  description = `Tests a server that honors known tags: a call runs under the definitions that its client knows.

Honoring is optional. A server that makes another choice is not meant to pass.

${FIXTURE}`;

  protected async judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void> {
    const { tag } = await this.first(conn);
    const after = await this.changed(conn);

    const now = await call(conn, REMOVED, { [TOOLS]: after.tag }, after.state);
    checks.push(
      check(
        'definition-tags-honored-tag-decides',
        'DefinitionTagsHonoredTagDecides',
        'A tool that the present list does not have is not called under the tag of that list',
        {
          error:
            textOf(now) === undefined
              ? ''
              : `a call of ${REMOVED} under the present tag was answered with ${seen(now)}`
        }
      )
    );

    const then = await call(conn, REMOVED, { [TOOLS]: tag }, after.state);
    checks.push(
      check(
        'definition-tags-honored',
        'DefinitionTagsHonored',
        'The same call under the tag of the first list, which has the tool, is served',
        {
          error:
            textOf(then) === 'removed'
              ? ''
              : `a call of ${REMOVED} under the tag of the list that has it was answered with ${seen(then)}`
        }
      ),
      check(
        'definition-tags-honored-signaled',
        'DefinitionTagsHonoredSignaled',
        'A server that honors a stale tag names it (SHOULD), so that honoring is distinguishable from ignoring',
        {
          error: isJust(staleTagsOf(then), TOOLS)
            ? ''
            : `the result of a call under an older tag has staleTags ${JSON.stringify(staleTagsOf(then)) ?? 'absent'}`,
          severity: 'WARNING'
        }
      )
    );

    const unknown = await call(
      conn,
      COUNT,
      { [TOOLS]: UNKNOWN_TAG },
      after.state
    );
    checks.push(
      check(
        'definition-tags-honored-unknown-rejected',
        'DefinitionTagsHonoredUnknownRejected',
        'A server that honors rejects a call under a tag that it does not hold (Testing Plan)',
        {
          error:
            rejects(unknown) && isJust(staleTagsOf(unknown), TOOLS)
              ? ''
              : `a call under an unknown tag was answered with ${seen(unknown)}`
        }
      )
    );
  }
}

export class DefinitionTagsOpenScenario extends DefinitionTagsScenario {
  name = 'definition-tags-open';
  description = `Tests progressive disclosure by definition tags: a call makes more tools available, its result says that the list is stale, and a client that lists again calls them by name.

It is the pattern of the draft's search tool, and optional: a server that
ignores known tags is not meant to pass.

${FIXTURE}`;

  protected async judge(
    conn: Connection,
    checks: ConformanceCheck[]
  ): Promise<void> {
    const known = await this.present(conn);
    const after = await this.changed(conn, known);
    const named = staleTagsOf(after.answer);
    checks.push(
      check(
        'definition-tags-open-signaled',
        'DefinitionTagsOpenSignaled',
        'The result of a call that leads to another list of tools says that tools/list is stale, and nothing else',
        {
          error: isJust(named, TOOLS)
            ? ''
            : `the result of ${CHANGE} has staleTags ${JSON.stringify(named) ?? 'absent'}`,
          details: { known }
        }
      )
    );

    const called = await call(conn, ADDED, { [TOOLS]: after.tag }, after.state);
    checks.push(
      check(
        'definition-tags-open-called',
        'DefinitionTagsOpenCalled',
        'A tool of the list that was read again is called by name; its tag is not stale',
        {
          error:
            textOf(called) === 'added' && staleTagsOf(called) === undefined
              ? ''
              : `a call of ${ADDED} under the tag of its list was answered with ${seen(called)}`
        }
      )
    );
  }
}

export const definitionTagsScenarios: ClientScenario[] = [
  new DefinitionTagsListsScenario(),
  new DefinitionTagsHintsScenario(),
  new DefinitionTagsStaleScenario(),
  new DefinitionTagsHonorScenario(),
  new DefinitionTagsOpenScenario()
];
