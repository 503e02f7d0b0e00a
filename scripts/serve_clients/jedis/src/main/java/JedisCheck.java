import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.util.KeyValue;

/**
 * Jedis, unchanged, against `perdure serve`: checks each answer, and ends with the first wrong one.
 *
 *     java -cp JARS JedisCheck PORT PORT_WITH_PASSWORD PASSWORD
 */
public final class JedisCheck {
  static final int CONNECTIONS = 8;
  static final int THREADS = 16;
  static final int PIPELINED = 10_000;

  static int checked = 0;

  /** Not what Redis answers. */
  static final class Wrong extends RuntimeException {
    Wrong(String text) {
      super(text);
    }
  }

  static synchronized void check(String what, Object expected, Object found) {
    checked += 1;
    if (!Objects.equals(expected, found)) {
      throw new Wrong(what + ": expected " + expected + ", found " + found);
    }
  }

  static void refused(String what, String begin, Callable<?> call) throws Exception {
    try {
      check(what, "refused: " + begin, call.call());
    } catch (JedisException error) {
      String text = String.valueOf(error.getMessage());
      check(what, begin, text.substring(0, Math.min(begin.length(), text.length())));
    }
  }

  static DefaultJedisClientConfig config(RedisProtocol protocol, String password) {
    return DefaultJedisClientConfig.builder()
        .protocol(protocol)
        .password(password)
        .clientName("jedis-check")
        .timeoutMillis(60_000)
        .build();
  }

  static JedisPooled pool(HostAndPort server, RedisProtocol protocol, String password) {
    ConnectionPoolConfig connections = new ConnectionPoolConfig();
    connections.setMaxTotal(CONNECTIONS);
    connections.setMaxIdle(CONNECTIONS);
    connections.setTestOnBorrow(true);
    return new JedisPooled(connections, server, config(protocol, password));
  }

  static void strings(JedisPooled redis) throws Exception {
    check("FLUSHALL", "OK", redis.flushAll());
    check("SET", "OK", redis.set("a", "1"));
    check("GET", "1", redis.get("a"));
    check("GET of no key", null, redis.get("nope"));
    check("SET NX", null, redis.set("a", "2", new SetParams().nx()));
    check("SET with GET", "1", redis.setGet("a", "2"));
    check("MSET", "OK", redis.mset("b", "1", "c", "x"));
    List<String> three = new ArrayList<>(List.of("2", "1", "x"));
    three.add(null);
    check("MGET", three, redis.mget("a", "b", "c", "nope"));
    check("INCRBY", 42L, redis.incrBy("b", 41));
    check("INCRBY of no key", -3L, redis.incrBy("d", -3));
    check("APPEND", 4L, redis.append("c", "y\u00e4"));
    check("GET after APPEND", "xy\u00e4", redis.get("c"));
    refused("INCRBY of a text", "ERR value is not an integer", () -> redis.incrBy("c", 1));
    byte[] key = new byte[256];
    IntStream.range(0, key.length).forEach(i -> key[i] = (byte) i);
    byte[] value = new byte[500_000];
    IntStream.range(0, value.length).forEach(i -> value[i] = (byte) (i * 31 + i / 256));
    check("SET of bytes", "OK", redis.set(key, value));
    check("GET of bytes", true, Arrays.equals(value, redis.get(key)));
    check("DEL", 1L, redis.del(key, "nope".getBytes(StandardCharsets.UTF_8)));
    check("DBSIZE", 4L, redis.dbSize());
  }

  static void expiry(JedisPooled redis) throws Exception {
    check("TTL of no key", -2L, redis.ttl("nope"));
    check("TTL without one", -1L, redis.ttl("a"));
    check("EXPIRE", 1L, redis.expire("a", 100));
    long left = redis.ttl("a");
    check("TTL", true, left >= 90 && left <= 100);
    check("PERSIST", 1L, redis.persist("a"));
    check("TTL after PERSIST", -1L, redis.ttl("a"));
    check("EXPIRE of no key", 0L, redis.expire("nope", 100));
    check("PEXPIRE", 1L, redis.pexpire("d", 50));
    Thread.sleep(200);
    check("GET of an expired key", null, redis.get("d"));
    check("EXISTS", 3L, redis.exists("a", "b", "c", "d"));
  }

  static void hashes(JedisPooled redis, RedisProtocol protocol) throws Exception {
    Map<String, String> fields = new HashMap<>();
    IntStream.range(0, 500).forEach(i -> fields.put("field" + i, "value" + i));
    check("HSET", 500L, redis.hset("h", fields));
    check("HSET again", 0L, redis.hset("h", "field7", "other"));
    fields.put("field7", "other");
    check("HGETALL", fields, redis.hgetAll("h"));
    check("HGETALL of no key", Map.of(), redis.hgetAll("nope"));
    check("HMGET", Arrays.asList("other", null), redis.hmget("h", "field7", "nope"));
    check("HINCRBY", 5L, redis.hincrBy("h", "count", 5));
    check("HDEL", 1L, redis.hdel("h", "count", "nope"));
    check("HLEN", 500L, redis.hlen("h"));
    check("TYPE", "hash", redis.type("h"));
    refused("GET of a hash", "WRONGTYPE ", () -> redis.get("h"));
    // A map of RESP3 comes as pairs, the list of RESP2 as what it is.
    List<?> raw = (List<?>) redis.sendCommand(Protocol.Command.HGETALL, "h");
    boolean map = protocol == RedisProtocol.RESP3;
    check("elements of HGETALL", map ? 500 : 1000, raw.size());
    check("HGETALL is a map", map, raw.get(0) instanceof KeyValue);
  }

  static void scan(JedisPooled redis) {
    Set<String> keys = new TreeSet<>();
    for (int at = 0; at < 5000; at += 500) {
      List<String> pairs = new ArrayList<>();
      for (int i = at; i < at + 500; i += 1) {
        keys.add("scan:" + i);
        pairs.addAll(List.of("scan:" + i, "" + i));
      }
      check("MSET of 500", "OK", redis.mset(pairs.toArray(new String[0])));
    }
    Set<String> found = new TreeSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    int calls = 0;
    do {
      ScanResult<String> part = redis.scan(cursor, new ScanParams().match("scan:*").count(100));
      found.addAll(part.getResult());
      cursor = part.getCursor();
      calls += 1;
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    check("SCAN", keys, found);
    check("SCAN in parts", true, calls > 10);
    found.clear();
    String hashes = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> part = redis.scan(hashes, new ScanParams().count(1000), "hash");
      found.addAll(part.getResult());
      hashes = part.getCursor();
    } while (!hashes.equals(ScanParams.SCAN_POINTER_START));
    check("SCAN of hashes", Set.of("h"), found);
  }

  static void pipeline(JedisPooled redis) {
    try (Pipeline pipe = redis.pipelined()) {
      List<Response<?>> answers = new ArrayList<>();
      List<Object> expected = new ArrayList<>();
      for (int i = 0; i < PIPELINED / 4; i += 1) {
        answers.add(pipe.set("p" + i, "v" + i));
        expected.add("OK");
        answers.add(pipe.get("p" + i));
        expected.add("v" + i);
        answers.add(pipe.incrBy("counted", i));
        expected.add((long) i * (i + 1) / 2);
        answers.add(pipe.get("h"));
        expected.add(null); // an error, in its position
      }
      pipe.sync();
      for (int i = 0; i < answers.size(); i += 1) {
        if (expected.get(i) != null) {
          check("pipeline, " + i, expected.get(i), answers.get(i).get());
          continue;
        }
        try {
          check("pipeline, " + i, "an error", answers.get(i).get());
        } catch (JedisDataException error) {
          check("pipeline, " + i, true, error.getMessage().startsWith("WRONGTYPE "));
        }
      }
    }
  }

  static void transactions(HostAndPort server, RedisProtocol protocol) {
    try (Jedis one = new Jedis(server, config(protocol, null));
        Jedis other = new Jedis(server, config(protocol, null))) {
      check("SET", "OK", one.set("t", "1"));
      check("WATCH", "OK", one.watch("t"));
      Transaction quiet = one.multi();
      Response<Long> counted = quiet.incrBy("t", 2);
      Response<Map<String, String>> all = quiet.hgetAll("t2");
      check("EXEC", List.of(3L, Map.of()), quiet.exec());
      check("INCRBY in EXEC", 3L, counted.get());
      check("HGETALL in EXEC", Map.of(), all.get());

      check("WATCH", "OK", one.watch("t"));
      check("INCRBY by another", 4L, other.incrBy("t", 1));
      Transaction late = one.multi();
      late.set("t", "lost");
      check("EXEC after a write", null, late.exec());
      check("GET", "4", one.get("t"));

      check("WATCH", "OK", one.watch("t"));
      check("UNWATCH", "OK", one.unwatch());
      check("SET by another", "OK", other.set("t", "5"));
      Transaction free = one.multi();
      free.append("t", "0");
      free.hset("t", "f", "v"); // an error; the rest happens
      free.get("t");
      List<Object> answers = free.exec();
      check("APPEND in EXEC", 2L, answers.get(0));
      check("HSET in EXEC", true, answers.get(1) instanceof JedisDataException);
      check("GET in EXEC", "50", answers.get(2));

      Transaction dropped = one.multi();
      dropped.del("t");
      check("DISCARD", "OK", dropped.discard());
      check("GET after DISCARD", "50", one.get("t"));
    }
  }

  interface Work {
    void run(int thread) throws Exception;
  }

  static void together(Work work) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    try {
      List<Future<?>> all = new ArrayList<>();
      for (int i = 0; i < THREADS; i += 1) {
        int thread = i;
        all.add(
            threads.submit(
                () -> {
                  work.run(thread);
                  return null;
                }));
      }
      for (Future<?> one : all) {
        one.get();
      }
    } finally {
      threads.shutdownNow();
    }
  }

  static void threads(JedisPooled redis, HostAndPort server, RedisProtocol protocol)
      throws Exception {
    check("DEL", 1L, redis.del("counted"));
    Set<Long> seen = Collections.synchronizedSet(new HashSet<>());
    together(
        thread -> {
          for (int i = 0; i < 500; i += 1) {
            String key = "thread:" + thread + ":" + i;
            check("SET of a thread", "OK", redis.set(key, "" + i));
            seen.add(redis.incrBy("counted", 1));
            check("GET of a thread", "" + i, redis.get(key));
          }
        });
    check("INCRBY of all threads", "" + THREADS * 500, redis.get("counted"));
    check("numbers that INCRBY gave out", THREADS * 500, seen.size());

    check("SET", "OK", redis.set("watched", "0"));
    together(
        thread -> {
          try (Jedis own = new Jedis(server, config(protocol, null))) {
            for (int done = 0; done < 50; ) {
              own.watch("watched");
              int now = Integer.parseInt(own.get("watched"));
              Transaction change = own.multi();
              change.set("watched", "" + (now + 1));
              done += change.exec() == null ? 0 : 1;
            }
          }
        });
    check("steps under WATCH", "" + THREADS * 50, redis.get("watched"));
  }

  static void passwords(HostAndPort server, RedisProtocol protocol, String password)
      throws Exception {
    refused("a wrong password", "WRONGPASS ", () -> ping(server, protocol, "not" + password));
    refused("no password", "NOAUTH ", () -> ping(server, protocol, null));
    check("the password", "PONG", ping(server, protocol, password));
    try (JedisPooled redis = pool(server, protocol, password)) {
      check("SET with a password", "OK", redis.set("a", "1"));
      check("GET with a password", "1", redis.get("a"));
    }
  }

  static String ping(HostAndPort server, RedisProtocol protocol, String password) {
    try (Jedis one = new Jedis(server, config(protocol, password))) {
      return one.ping();
    }
  }

  public static void main(String[] arguments) throws Exception {
    HostAndPort open = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
    HostAndPort guarded = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[1]));
    try {
      for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
        try (JedisPooled redis = pool(open, protocol, null)) {
          strings(redis);
          expiry(redis);
          hashes(redis, protocol);
          scan(redis);
          pipeline(redis);
          transactions(open, protocol);
          threads(redis, open, protocol);
        } catch (Exception error) {
          throw new Exception(protocol + ": " + error.getMessage(), error);
        }
        passwords(guarded, protocol, arguments[2]);
      }
    } catch (Exception error) {
      error.printStackTrace();
      System.exit(1);
    }
    System.out.println(
        "jedis: " + checked + " answers as Redis gives them, RESP2 and RESP3, by a pool of "
            + CONNECTIONS + " connections");
  }
}
