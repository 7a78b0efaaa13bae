"""Results: recorded episodes of evaluations, trainings and other frameworks, read lazily.

    run -> group (the rollouts of a task, or of a task at one step of a training) -> episode -> turn

A screen or a command works in this order:

1. `find.find_results(folder, store)` lists the `ResultRun`s of a project; `find.results_at(path)`
   lists those of a file or folder. Both read only names and sizes, and are quick.
2. `index.ResultIndex(runs)` opens them. Its `advance(seconds)` blocks: it continues to read for
   about that long and returns an `IndexProgress`. A screen therefore consumes
   `index.follow(results)`, an async generator. It reads in a thread, yields after each piece, and
   then waits for the files to grow. The indexed part can be shown at any time:

       async with aclosing(follow(results)) as pieces:
           async for progress in pieces:      # progress.complete: all that is written was read
               table.show(results.groups())   # ResultGroup: reward, spread, failures; cheap, cached
               ...results.members(group)      # EpisodeEntry: reward, parts, step, stop, error...

   `results.generation` changes if a file was replaced; the numbers of earlier entries are then no
   longer valid.
3. `results.read(entry)` reads one episode from the disk as a `Transcript` with its
   `TranscriptTurn`s. It takes milliseconds, but blocks (use
   `asyncio.to_thread(results.read, entry)`). Keep only the transcripts that are on the screen.
4. `search.search(results, text)` is an async generator of `EpisodeSearchProgress` with the new
   `SearchHit`s; close it to stop.
5. `queries` works on entries (`histogram`, `failures`, `pass_table`, `EPISODE_FIELDS` and
   `GROUP_FIELDS` for `core.row_filter`) and on two transcripts (`diff_transcripts`).
   `export.export_results` writes a selection of entries.

The index needs about half a kilobyte of memory per episode; transcripts are not kept. All text
comes unchanged from the file: pass it through `core.text.clean` or `clean_line` before printing it
to a terminal, and never treat it as markup.
"""
