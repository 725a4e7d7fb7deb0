"""Volume-weighted average price per ticker, with hot tickers split across workers.

python examples/vwap.py
"""

import numpy as np
import pyarrow as pa
from evenflow.spark.session import local_session

from evenflow.apps.generated import Trades
from evenflow.apps.vwap import Vwap, VwapApp
from evenflow.spark import aggregate

if __name__ == "__main__":
    spark = local_session("local[*]")
    made = Trades(messages=100_000).make(np.arange(100_000))  # yours: spark.read.csv("trades.csv", ...)
    trades = spark.createDataFrame(pa.Table.from_struct_array(made))
    prices = aggregate(trades, "ticker", Vwap(), VwapApp.schema, workers=8)
    prices.orderBy("volume", ascending=False).show(10)
    spark.stop()
