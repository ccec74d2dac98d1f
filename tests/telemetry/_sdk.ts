import { context, metrics, SpanKind, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { openTelemetry } from "../../src/telemetry/open_telemetry.ts";
import "../../src/telemetry/spans.ts"; // a stop imports it late, and a virtual clock does not wait

/** Collects metrics on demand. */
class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

/** A data point of a metric: its labels and its value. */
export type Point = readonly [labels: Readonly<Record<string, unknown>>, value: unknown];

/** Registers the OpenTelemetry SDK with in-memory exporters until it is disposed. */
export class Sdk implements AsyncDisposable {
  readonly #exporter = new InMemorySpanExporter();
  readonly tracing: TracerProvider;
  readonly #metering: MeterProvider;
  readonly #reader = new Reader();

  private constructor() {
    const processor = new SimpleSpanProcessor({ exporter: this.#exporter });
    this.tracing = new TracerProvider({ spanProcessors: [processor] });
    this.#metering = new MeterProvider({ readers: [this.#reader] });
  }

  static async start(): Promise<Sdk> {
    const sdk = new Sdk();
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    trace.setGlobalTracerProvider(sdk.tracing);
    metrics.setGlobalMeterProvider(sdk.#metering);
    await openTelemetry(); // a virtual clock does not wait until the API is loaded
    return sdk;
  }

  get spans(): readonly ReadableSpan[] {
    return this.#exporter.getFinishedSpans();
  }

  /** Returns the only span with this name. */
  span(name: string): ReadableSpan {
    const found = this.spans.filter((span) => span.name === name);
    if (found.length === 1) return found[0]!;
    const names = this.spans.map((span) => span.name).join(", ");
    throw new Error(`There are ${found.length} spans "${name}" among: ${names}`);
  }

  /** Resolves with the data points of a metric. */
  async points(name: string): Promise<readonly Point[]> {
    const { resourceMetrics } = await this.#reader.collect();
    return resourceMetrics.scopeMetrics
      .flatMap((scope) => scope.metrics)
      .filter(({ descriptor }) => descriptor.name === name)
      .flatMap(({ dataPoints }) =>
        dataPoints.map(({ attributes, value }): Point => [attributes, value])
      );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    trace.disable();
    metrics.disable();
    context.disable();
    await this.tracing.shutdown();
    await this.#metering.shutdown();
  }
}

/** Returns the name of the kind of a span. */
export const kindOf = ({ kind }: ReadableSpan): string => SpanKind[kind];
