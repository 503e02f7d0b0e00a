import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;

/**
 * The C interface by Java's own foreign functions (Java 22 and later): makes a pool, writes a batch
 * of longs, opens the pool again and reads them; checks what it did.
 *
 *     java --enable-native-access=ALL-UNNAMED Example.java LIBPERDURE_SO POOL
 *
 * The layouts are those of perdure/perdure_types.h. jextract makes all of them from the header.
 */
public final class Example {
  static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
  static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
  static final AddressLayout ADDRESS = ValueLayout.ADDRESS;
  /** What a call that takes the address of an address writes there. */
  static final AddressLayout TEXT =
      ADDRESS.withTargetLayout(MemoryLayout.sequenceLayout(Long.MAX_VALUE, ValueLayout.JAVA_BYTE));

  /** perdure_column, and perdure_mutable_column without `offsets`. */
  static final StructLayout COLUMN =
      MemoryLayout.structLayout(
          ADDRESS.withName("data"),
          ADDRESS.withName("offsets"),
          LONG.withName("count"),
          INT.withName("width"),
          INT.withName("space"));

  static final StructLayout MUTABLE_COLUMN =
      MemoryLayout.structLayout(
          ADDRESS.withName("data"),
          LONG.withName("count"),
          INT.withName("width"),
          INT.withName("space"));

  static final StructLayout CREATE_OPTIONS =
      MemoryLayout.structLayout(
          LONG.withName("struct_bytes"),
          LONG.withName("expected_records"),
          LONG.withName("max_bytes"),
          INT.withName("key_bytes"),
          INT.withName("value_bytes"),
          INT.withName("index"),
          INT.withName("key_order"),
          INT.withName("values_in"),
          INT.withName("persist"),
          INT.withName("layout"),
          INT.withName("durability"),
          INT.withName("overwrite"),
          INT.withName("force"),
          INT.withName("mode"),
          INT.withName("reserved"),
          ADDRESS.withName("log_dir"),
          LONG.withName("log_bytes"));

  final SymbolLookup library;

  Example(String path, Arena arena) {
    library = SymbolLookup.libraryLookup(java.nio.file.Path.of(path), arena);
  }

  MethodHandle function(String name, MemoryLayout answer, MemoryLayout... arguments) {
    FunctionDescriptor type =
        answer == null ? FunctionDescriptor.ofVoid(arguments) : FunctionDescriptor.of(answer, arguments);
    return Linker.nativeLinker().downcallHandle(library.find(name).orElseThrow(), type);
  }

  static void set(MemorySegment at, StructLayout layout, String field, Object value) {
    VarHandle handle = layout.varHandle(MemoryLayout.PathElement.groupElement(field));
    handle.set(at, 0L, value);
  }

  /** The exception of a call that answered a code other than 0; frees its error. */
  void check(int code, MemorySegment error) throws Throwable {
    if (code == 0) {
      return;
    }
    MemorySegment told = error.get(ADDRESS, 0);
    var message = (MemorySegment) function("perdure_error_message", TEXT, ADDRESS).invokeExact(told);
    String text = message.getString(0);
    function("perdure_error_free", null, ADDRESS).invokeExact(told);
    throw new IllegalStateException("code " + code + ": " + text);
  }

  MemorySegment column(Arena arena, StructLayout layout, MemorySegment data, long count) {
    MemorySegment column = arena.allocate(layout);
    set(column, layout, "data", data);
    set(column, layout, "count", count);
    set(column, layout, "width", 8);
    return column;
  }

  void write(String path, long[] keys, long[] values) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment error = arena.allocate(ADDRESS);
      MemorySegment store = arena.allocate(ADDRESS);
      MemorySegment options = arena.allocate(CREATE_OPTIONS);
      check(
          (int)
              function("perdure_create_options_init", INT, ADDRESS, LONG)
                  .invokeExact(options, CREATE_OPTIONS.byteSize()),
          error);
      set(options, CREATE_OPTIONS, "key_bytes", 8);
      set(options, CREATE_OPTIONS, "value_bytes", 8);
      set(options, CREATE_OPTIONS, "overwrite", 1);
      check(
          (int)
              function("perdure_create", INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
                  .invokeExact(arena.allocateFrom(path), options, MemorySegment.NULL, store, error),
          error);
      MemorySegment k = column(arena, COLUMN, arena.allocateFrom(LONG, keys), keys.length);
      MemorySegment v = column(arena, COLUMN, arena.allocateFrom(LONG, values), values.length);
      check(
          (int)
              function("perdure_put", INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
                  .invokeExact(
                      store.get(ADDRESS, 0), k, v, MemorySegment.NULL, MemorySegment.NULL, error),
          error);
      close(store.get(ADDRESS, 0), error);
    }
  }

  long[] read(String path, long[] keys) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment error = arena.allocate(ADDRESS);
      MemorySegment store = arena.allocate(ADDRESS);
      check(
          (int)
              function("perdure_open", INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
                  .invokeExact(arena.allocateFrom(path), MemorySegment.NULL, store, error),
          error);
      MemorySegment found = arena.allocate(LONG, keys.length);
      MemorySegment k = column(arena, COLUMN, arena.allocateFrom(LONG, keys), keys.length);
      MemorySegment into = column(arena, MUTABLE_COLUMN, found, keys.length);
      check(
          (int)
              function("perdure_get", INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
                  .invokeExact(
                      store.get(ADDRESS, 0), k, into, MemorySegment.NULL, MemorySegment.NULL, error),
          error);
      long[] values = found.toArray(LONG);
      close(store.get(ADDRESS, 0), error);
      return values;
    }
  }

  void close(MemorySegment store, MemorySegment error) throws Throwable {
    int code = (int) function("perdure_close", INT, ADDRESS, ADDRESS).invokeExact(store, error);
    function("perdure_destroy", null, ADDRESS).invokeExact(store);
    check(code, error);
  }

  public static void main(String[] arguments) throws Throwable {
    Example perdure = new Example(arguments[0], Arena.global());
    String pool = arguments[1];
    perdure.write(pool, new long[] {7, 8, 9}, new long[] {70, 80, 90});
    long[] found = perdure.read(pool, new long[] {9, 1, 7});
    if (found[0] != 90 || found[1] != 0 || found[2] != 70) {
      throw new AssertionError(java.util.Arrays.toString(found));
    }
    try {
      perdure.read(pool + ".missing", new long[0]);
      throw new AssertionError("a pool that is not there was opened");
    } catch (IllegalStateException missing) {
      if (!missing.getMessage().startsWith("code 2: ")) {
        throw missing;
      }
    }
    System.out.println("from Java: as expected");
  }
}
