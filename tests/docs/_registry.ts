// npm and JSR on this machine: what a reader installs is what this repository would publish.
//
// npm gets the packed package, and every other package as it is installed here. JSR gets what
// `deno publish` uploads, and the stand-ins of @std that are part of the upload.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream, existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { assertEquals } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";

/** Both registries forget their packages when the folder is removed. */
export class LocalRegistry implements Disposable {
  readonly #server: Server;
  readonly #folder: string;
  readonly #tarballs = new Map<string, Promise<string>>();
  #upload = "";

  private constructor(folder: string, tarball: string) {
    this.#folder = folder;
    this.#tarballs.set("lastcall", Promise.resolve(tarball));
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => send(response, 500, String(error)));
    });
  }

  /** Opens the registries in a folder, with the package that was packed for npm. */
  static async open(parent: string, tarball: string): Promise<LocalRegistry> {
    const registry = new LocalRegistry(await mkdtemp(join(parent, "registry-")), tarball);
    await once(registry.#server.listen(0, "127.0.0.1"), "listening");
    await registry.#publish();
    return registry;
  }

  /** The settings by which npm, Bun and Deno find the registries. */
  get env(): Readonly<Record<string, string>> {
    return { NPM_CONFIG_REGISTRY: `${this.#origin}/npm/`, JSR_URL: `${this.#origin}/` };
  }

  [Symbol.dispose](): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  get #origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #publish(): Promise<void> {
    // The step `check` has checked the types.
    const options = ["--allow-dirty", "--no-check", "--no-provenance", "--token", "none"];
    const env = { ...this.env };
    const { code, output } = await run(runtimeBinary("deno"), ["publish", ...options], { env });
    assertEquals(code, 0, output);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? "/", this.#origin);
    const [, npm] = /^\/npm\/(.+)$/.exec(decodeURIComponent(pathname)) ?? [];
    if (npm !== undefined) return await this.#npm(npm, response);
    if (pathname.startsWith("/api/")) return await this.#receive(request, response);
    this.#jsr(pathname, response);
  }

  /** Answers `name` with the document of a package, and `name/-/file` with its tarball. */
  async #npm(path: string, response: ServerResponse): Promise<void> {
    const [name = "", file] = path.split("/-/");
    const tarball = await this.#tarball(name);
    if (tarball === undefined) return send(response, 404, { error: `no package ${name}` });
    const bytes = await readFile(tarball);
    if (file !== undefined) return send(response, 200, bytes);
    const folder = name === "lastcall" ? root : join(root, "node_modules", name);
    const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const { version, devDependencies: _, scripts: __, ...rest } = manifest;
    const dist = {
      tarball: `${this.#origin}/npm/${name}/-/${basename(tarball)}`,
      integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`,
    };
    send(response, 200, {
      name,
      "dist-tags": { latest: version },
      versions: { [version]: { ...rest, version, dist } },
    });
  }

  /** Packs what is installed here when it is asked for. */
  #tarball(name: string): Promise<string> | undefined {
    const folder = join(root, "node_modules", name);
    if (!this.#tarballs.has(name) && existsSync(join(folder, "package.json"))) {
      const file = join(this.#folder, `${name.replace("/", "-")}.tgz`);
      const packed = run("tar", ["-czf", file, "-C", dirname(folder), basename(folder)]);
      this.#tarballs.set(
        name,
        packed.then(({ code, output }) => (assertEquals(code, 0, output), file)),
      );
    }
    return this.#tarballs.get(name);
  }

  /** Takes what `deno publish` uploads; its questions about earlier versions are answered with no. */
  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== "POST") {
      const isVersion = request.url?.includes("/versions/") ?? false;
      return isVersion
        ? send(response, 404, { code: "packageVersionNotFound", message: "not yet" })
        : send(response, 200, {});
    }
    const upload = join(this.#folder, "jsr");
    await mkdir(upload);
    const file = join(this.#folder, "upload.tgz");
    await pipeline(request, createWriteStream(file));
    const { code, output } = await run("tar", ["-xzf", file, "-C", upload]);
    assertEquals(code, 0, output);
    this.#upload = upload;
    send(response, 200, { id: "1", status: "success", error: null });
  }

  /** Answers the documents of a package, and its files. */
  #jsr(path: string, response: ServerResponse): void {
    const [, name = "", rest = ""] = /^\/(@\w+\/\w+)\/(.+)$/.exec(path) ?? [];
    const folder = name.startsWith("@std/")
      ? join(this.#upload, "tools", name.slice(1))
      : this.#upload;
    const config = join(folder, "deno.json");
    if (!existsSync(config)) return send(response, 404, `no package ${name}`);
    const { name: own, version, exports } = JSON.parse(readFileSync(config, "utf8"));
    if (own !== name) return send(response, 404, `no package ${name}`);
    if (rest === "meta.json") {
      return send(response, 200, { latest: version, versions: { [version]: {} } });
    }
    if (rest === `${version}_meta.json`) {
      const files = globSync("**/*.*", { cwd: folder });
      const manifest = Object.fromEntries(
        files.map((file) => [`/${file}`, describe(readFileSync(join(folder, file)))]),
      );
      const entries = typeof exports === "string" ? { ".": exports } : exports;
      return send(response, 200, { exports: entries, manifest });
    }
    send(response, 200, readFileSync(join(folder, rest.replace(`${version}/`, ""))));
  }
}

function describe(bytes: Uint8Array): { readonly size: number; readonly checksum: string } {
  const hash = createHash("sha256").update(bytes).digest("hex");
  return { size: bytes.length, checksum: `sha256-${hash}` };
}

function send(response: ServerResponse, status: number, body: Uint8Array | string | object): void {
  const raw = typeof body === "string" || body instanceof Uint8Array;
  const type = raw ? "application/octet-stream" : "application/json";
  response.writeHead(status, { "content-type": type }).end(raw ? body : JSON.stringify(body));
}
