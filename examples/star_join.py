"""Join a skewed fact table with two dimensions and add up per product, every task equally busy.

python examples/star_join.py
"""

import pyarrow.compute as pc
from evenflow.spark import Aggregator, aggregate, join, loads
from evenflow.spark.session import local_session


class Revenue(Aggregator):
    buffer, merges = "cents long", {"cents": "sum"}

    def zero(self):
        return (0,)

    def reduce(self, state, rows):
        return (state[0] + pc.sum(pc.multiply(rows["amount"], rows["price"])).as_py(),)


if __name__ == "__main__":
    spark = local_session("local[*]", **{"spark.sql.autoBroadcastJoinThreshold": -1})  # as if all were large
    products = spark.range(5000).selectExpr("id as product", "100 + id % 900 as price")
    shops = spark.range(300).selectExpr("id as shop", "concat('city ', id % 40) as city")
    sales = spark.range(200_000).selectExpr("if(id % 3 = 0, 7, id % 5000) as product", "id % 300 as shop", "1 as amount")
    plans = []
    joined = join(join(sales, shops, "shop", workers=8), products, "product", workers=8, on_placed=plans.append)
    print(plans[0].explain(), loads(joined, "product", workers=8).summary(), sep="\n")
    aggregate(joined, "product", Revenue(), "cents long", plan=plans[0].plan).orderBy("cents").show(3)
    spark.stop()
