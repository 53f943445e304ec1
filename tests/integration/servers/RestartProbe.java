import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.java.io.DiscardingOutputFormat;
import org.apache.flink.api.java.tuple.Tuple2;

/**
 * A batch job of the kind that Beam makes of a pipeline on Flink 1.20 (the DataSet interface, pipelined): groups
 * numbers by key, then works on each group for a while and leaves a file "KEY-PROCESS" in a folder.
 *
 * <p>Arguments: the folder, the number of keys, milliseconds of work for each.
 */
public class RestartProbe {
  public static void main(String[] arguments) throws Exception {
    String folder = arguments[0];
    long keys = Long.parseLong(arguments[1]);
    long work = Long.parseLong(arguments[2]);
    ExecutionEnvironment environment = ExecutionEnvironment.getExecutionEnvironment();
    environment
        .generateSequence(0, keys * 10 - 1)
        .map(number -> Tuple2.of(number % keys, number))
        .returns(Types.TUPLE(Types.LONG, Types.LONG))
        .groupBy(0)
        .<Long>reduceGroup(
            (group, output) -> {
              long key = group.iterator().next().f0;
              Thread.sleep(work);
              Files.write(Path.of(folder, key + "-" + ProcessHandle.current().pid()), new byte[0]);
              output.collect(key);
            })
        .returns(Types.LONG)
        .output(new DiscardingOutputFormat<>());
    environment.execute("RestartProbe");
  }
}
