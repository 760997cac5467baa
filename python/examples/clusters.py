"""Which cluster trains Llama 3.1 70B fastest for the money? A row a cluster and number of GPUs, as a pandas table.

Cells of a notebook: paste each part between blank lines, or run the file. Prices are yours to say.
"""
import pandas
import tdp

PRICES = {"dgx": 1.5, "dgx-h100": 2.5, "dgx-b200": 4.5}  # dollars a GPU-hour
TOKENS = 1e12

rows = tdp.sweep(["llama-3.1-70b"], PRICES, [64, 256, 1024], global_batch_size=1024)
table = pandas.DataFrame(rows)

table["days"] = TOKENS / (table.tokens_per_s_per_gpu * table.gpus) / 86400
table["dollars"] = table.days * 24 * table.gpus * table.cluster.map(PRICES)
plans = pandas.json_normalize(table.plan)
table = table.join(plans[["tensor_model_parallel_size", "pipeline_model_parallel_size", "data_parallel_size"]])

print(table.drop(columns="plan").sort_values("dollars").round(3).to_string(index=False))
print(table.pivot(index="gpus", columns="cluster", values="days").round(1))
