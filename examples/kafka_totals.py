"""From topic to topic, exactly once: totals per user. `make broker` starts a broker on localhost:9092."""
import json
import sys
from uuid import uuid4
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession, functions as F
from evenflow.kafka import KafkaAddress
from evenflow.kafka.topic import sample
from evenflow.spark import KafkaSink, balance

servers, run = (sys.argv[1:] or ["localhost:9092"])[0], uuid4().hex[:8]
sales, totals = f"sales-{run}", f"totals-{run}"
admin = AdminClient({"bootstrap.servers": servers})
for created in admin.create_topics([NewTopic(sales, 4), NewTopic(totals, 2)]).values():
    created.result(30)
producer = Producer({"bootstrap.servers": servers})
for number in range(1000):  # user 0 has half of the sales
    producer.produce(sales, json.dumps({"user": number % 40 if number % 2 else 0, "amount": 1}), str(number))
producer.flush(30)

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()  # with the Kafka connector of this Spark, see docs/spark/kafka.md
source = {"kafka.bootstrap.servers": servers, "subscribe": sales, "startingOffsets": "earliest"}
rows = spark.readStream.format("kafka").options(**source).load()
rows = rows.select(F.from_json(F.col("value").cast("string"), "user long, amount long").alias("v")).select("v.*")
even = rows.transform(balance("user", workers=4)).groupBy("user").agg(F.sum("amount").alias("total"))
sink = KafkaSink(f"kafka://{servers}/{totals}", query=totals, key="user")
even.writeStream.outputMode("update").foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()
print(sample(KafkaAddress(servers, totals)).rows.select(["user", "total"]).to_pandas().nlargest(3, "total"))
spark.stop()
