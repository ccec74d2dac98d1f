import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { Child, runtimeName } from "../signals/_child.ts";

const skip = runtimeName !== "deno" && "only Deno has its own exporter";

interface ExportedSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

/** An OpenTelemetry collector that keeps everything it receives. */
class Collector implements AsyncDisposable {
  readonly #texts = new Map<string, string[]>();
  readonly #server: Server;

  constructor() {
    this.#server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      const path = request.url ?? "";
      this.#texts.set(path, [...this.#texts.get(path) ?? [], text]);
      response.setHeader("content-type", "application/json").end("{}");
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The spans of this package, without those of Deno itself. */
  get spans(): readonly ExportedSpan[] {
    const texts = this.#texts.get("/v1/traces") ?? [];
    // deno-lint-ignore no-explicit-any -- the OTLP format
    const scopes = texts.flatMap((text): any[] =>
      JSON.parse(text).resourceSpans.flatMap((it: { scopeSpans: unknown[] }) => it.scopeSpans)
    );
    return scopes.filter(({ scope }) => scope?.name === "lastcall").flatMap(({ spans }) => spans);
  }

  get metrics(): string {
    return (this.#texts.get("/v1/metrics") ?? []).join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

describe("Deno's own exporter", () => {
  it("Deno's own exporter exports the spans of two mailboxes in one trace, and the metrics", {
    skip,
  }, async () => {
    await using collector = new Collector();
    const endpoint = await collector.listen();
    const wrapper = [
      ...["env", "OTEL_DENO=true", `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint}`],
      "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
    ];
    await using child = Child.start("../../telemetry/fixtures/traced", { wrapper });
    const { code, stderr } = await child.exit();
    assertEquals([code, stderr], [0, ""]);
    const find = (name: string) => {
      const span = collector.spans.find((it) => it.name === name);
      assert(span, `${name} is not among ${collector.spans.map((it) => it.name).join(", ")}`);
      return span;
    };
    const chain = ["send orders", "process orders", "send mails", "process mails"].map(find);
    assertEquals(chain.map(({ kind }) => kind), [4, 5, 4, 5], "producers and consumers");
    assertEquals(new Set(chain.map(({ traceId }) => traceId)).size, 1);
    assertEquals(
      chain.slice(1).map(({ parentSpanId }) => parentSpanId),
      chain.slice(0, -1).map(({ spanId }) => spanId),
    );
    find("lastcall.stop");
    for (const name of ["lastcall.messages", "messaging.process.duration"]) {
      assert(collector.metrics.includes(`"${name}"`), `${name} is exported`);
    }
  });
});
