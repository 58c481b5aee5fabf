// Generated from the JSON Schema of the page's details by crates/report/tests/web_types.rs.

export interface Details {
  plan: string;
  series: TrialSeries[];
}

export interface Column {
  buckets: [number, number][];
  failed: number;
  lateness_p50_ns: number;
  ok: number;
  p50_ns: number;
  p99_ns: number;
  planned: number;
  sent: number;
}

export interface TrialSeries {
  columns: Column[];
  cpu_cores: Partial<Record<string, number[]>>;
  index: number;
  memory_mib: Partial<Record<string, number[]>>;
  sampled_s: number[];
  step_s: number;
}

